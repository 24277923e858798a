import type * as LiquidModule from 'liquidjs';
import { nearest } from '../../core/suggestions.js';
import type { OptionProblem } from '../option.js';
import { contentRange, liquidModule, parseTemplate, type TopLevelToken, templateTags, tokensOf } from './engine.js';
import { templateFilters } from './filters.js';

/** A fault of a text, and where it is: the number of its `{{` or `{%` in the text, from 0. */
interface TextFault {
  readonly placeholder: number;
  readonly message: string;
}

const opening = /\{\{|\{%/g;

/** Whether a text has anything that a template could begin with. */
export function isTemplate(text: string): boolean {
  return text.includes('{{') || text.includes('{%');
}

/** Which `{{` or `{%` of a text an offset is in, from 0. */
export function placeholderAt(text: string, offset: number): number {
  return Math.max(0, [...text.slice(0, offset + 2).matchAll(opening)].length - 1);
}

type Tokenizer = LiquidModule.Tokenizer;
type Content = readonly [begin: number, end: number];

function quoted(words: string): string {
  return JSON.stringify(words.length > 60 ? `${words.slice(0, 57)}…` : words);
}

/** The fault of an expression: operands without an operator between them. */
function expressionFault(tokenizer: Tokenizer): string | undefined {
  const { TypeGuards } = liquidModule();
  let [operands, pending] = [0, true];
  for (const token of tokenizer.readExpressionTokens()) {
    if (TypeGuards.isOperatorToken(token)) {
      const isUnary = token.operator === 'not';
      if (isUnary !== pending) return `${quoted(token.operator)} has no value on one of its sides`;
      pending = true;
      continue;
    }
    if (!pending) {
      const words =
        tokenizer.input
          .slice(0, tokenizer.p)
          .split(/\{\{-?|\{%-?/)
          .at(-1)
          ?.trim() ?? '';
      const hint = /^[\w ]+$/.test(words) ? `; a column whose name has spaces is written ["${words}"]` : '';
      return `${quoted(token.getText())} is left over after a value${hint}`;
    }
    [operands, pending] = [operands + 1, false];
  }
  return operands === 0 || pending ? 'a value is missing' : undefined;
}

function filterFault({ name, args }: LiquidModule.FilteredValueToken['filters'][number]): string | undefined {
  const filter = templateFilters.get(name);
  if (filter === undefined) {
    const [near] = nearest(name, [...templateFilters.keys()], 1);
    return `there is no filter ${quoted(name)}${near === undefined ? '' : `; did you mean "${near}"?`}`;
  }
  const [min, max] = filter.args;
  const named = args.filter((arg) => Array.isArray(arg)).map((arg) => String((arg as [unknown, unknown])[0]));
  const count = args.length - named.length;
  const strange = named.find((word) => name !== 'default' || word !== 'allow_false');
  if (strange !== undefined) return `the filter "${name}" has no argument ${quoted(strange)}`;
  if (count >= min && count <= max) return undefined;
  const allowed = min === max ? String(min) : `${min} to ${max}`;
  return `the filter "${name}" takes ${allowed} argument${allowed === '1' ? '' : 's'}, and has ${count}`;
}

/** The fault of a value with its filters, which must end where the content ends. */
function valueFault(input: string, [begin, end]: Content): string | undefined {
  const { Tokenizer, defaultOptions, TypeGuards } = liquidModule();
  const range = [begin, end] as [number, number];
  const expression = expressionFault(new Tokenizer(input, defaultOptions.operators, undefined, range));
  if (expression !== undefined) return expression;
  const tokenizer = new Tokenizer(input, defaultOptions.operators, undefined, range);
  let value: LiquidModule.FilteredValueToken;
  try {
    value = tokenizer.readFilteredValue();
  } catch {
    return `${quoted(input.slice(tokenizer.p, end))} cannot be read; filters are written | name: argument, argument`;
  }
  tokenizer.skipBlank();
  if (!tokenizer.end()) return `${quoted(tokenizer.remaining())} is left over`;
  if (/\|\s*$/.test(input.slice(begin, end))) return 'a filter is missing after "|"';
  const first = value.initial.postfix[0];
  const isClock = first !== undefined && TypeGuards.isQuotedToken(first) && /^(now|today)$/.test(first.content);
  if (isClock && value.filters.some(({ name }) => name.startsWith('date')))
    return `"${first.content}" would be another time at each try; use _synced_at`;
  return value.filters.map(filterFault).find((fault) => fault !== undefined);
}

const name = '[A-Za-z_][\\w-]*';

/** The parts of each tag that are values, by the groups of an expression. */
const tagForms: Readonly<Record<string, RegExp>> = {
  assign: new RegExp(`^${name}\\s*=(?<value>.*)$`, 's'),
  capture: new RegExp(`^(?:${name}|"${name}"|'${name}')$`),
  case: /^(?<value>.*)$/s,
  if: /^(?<value>.*)$/s,
  elsif: /^(?<value>.*)$/s,
  unless: /^(?<value>.*)$/s,
  when: /^.+$/s,
  for: new RegExp(`^${name}\\s+in\\s+.+$`, 's'),
};
const withoutArguments = /^(?:else|break|continue|raw|endraw|end[a-z]+)$/;

function tagFault(token: TopLevelToken & { readonly name: string }, input: string, [begin, end]: Content) {
  const word = token.name;
  const isKnown = templateTags.includes(word) || Object.hasOwn(tagForms, word) || withoutArguments.test(word);
  if (!isKnown) return `the tag ${quoted(word)} cannot be used here; allowed: ${templateTags.join(', ')}`;
  if (word === '#' || word === 'comment') return undefined;
  const from = input.indexOf(word, begin) + word.length;
  const args = input.slice(from, end);
  const lead = args.length - args.trimStart().length;
  const form = tagForms[word];
  if (form === undefined) return args.trim() === '' ? undefined : `${quoted(args.trim())} is left over after "${word}"`;
  const match = form.exec(args.trim());
  if (match === null) return `the tag "${word}" cannot be read`;
  const value = match.groups?.value;
  return value === undefined ? undefined : valueFault(input, [from + lead + args.trim().length - value.length, end]);
}

/** The faults of the text of a template; none for a text that is not a template. */
export function textFaults(text: string): TextFault[] {
  if (!isTemplate(text)) return [];
  let tokens: TopLevelToken[];
  try {
    tokens = tokensOf(text);
  } catch (error) {
    const { begin = 0 } = (error as { token?: { begin?: number } }).token ?? {};
    const isTag = text.startsWith('{%', begin);
    const message = isTag ? 'a tag is not closed by "%}"' : 'a placeholder is not closed by "}}"';
    return [{ placeholder: placeholderAt(text, begin), message }];
  }
  const faults: TextFault[] = [];
  let isComment = false;
  for (const token of tokens) {
    const content = contentRange(token);
    if (content === undefined) continue;
    const tag = 'name' in token ? (token as TopLevelToken & { readonly name: string }) : undefined;
    if (tag?.name === 'endcomment') isComment = false;
    if (isComment) continue;
    if (tag?.name === 'comment') isComment = true;
    const isEmpty = tag === undefined && content[0] >= content[1];
    const fault = isEmpty
      ? 'a placeholder must name a column: {{ column }}'
      : tag === undefined
        ? valueFault(token.input, content)
        : tagFault(tag, token.input, content);
    if (fault !== undefined) faults.push({ placeholder: placeholderAt(token.input, token.begin), message: fault });
  }
  if (faults.length > 0) return faults;
  try {
    parseTemplate(text);
    return [];
  } catch (error) {
    const { begin = 0 } = (error as { token?: { begin?: number } }).token ?? {};
    const said = (error as Error).message;
    const open = said.includes(' not closed') ? /tag \W*(\w+)/.exec(said)?.[1] : undefined;
    const message = open === undefined ? 'this template cannot be read' : `the tag "${open}" is not closed`;
    return [{ placeholder: placeholderAt(text, begin), message }];
  }
}

/** The faults of the templates in a text, a list or a map of any depth. */
export function templateFaults(body: unknown, path: readonly (string | number)[] = []): OptionProblem[] {
  if (typeof body === 'string')
    return textFaults(body).map((fault) => ({ path, code: 'template_invalid' as const, ...fault }));
  if (typeof body !== 'object' || body === null) return [];
  const prototype: unknown = Object.getPrototypeOf(body);
  if (!Array.isArray(body) && prototype !== Object.prototype && prototype !== null) return [];
  return Object.entries(body).flatMap(([key, value]): OptionProblem[] => {
    const here = [...path, Array.isArray(body) ? Number(key) : key];
    const inKey = !Array.isArray(body) && isTemplate(key);
    const message = 'placeholders do not work in keys';
    return [
      ...(inKey ? [{ path: here, message, code: 'template_invalid' as const }] : []),
      ...templateFaults(value, here),
    ];
  });
}

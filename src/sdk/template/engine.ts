import { createRequire } from 'node:module';
import type * as LiquidModule from 'liquidjs';
import { engineFilter, TemplateFailure, templateFilters } from './filters.js';
import { escapedMarks, unmarked } from './marks.js';
import { type TemplateValue, textOf } from './values.js';

type Liquid = LiquidModule.Liquid;
export type ParsedTemplate = LiquidModule.Template[];
export type TopLevelToken = LiquidModule.TopLevelToken;
type Range = LiquidModule.Token & { readonly contentRange: [number, number] };

interface EngineFilter {
  readonly handler: (this: object, value: unknown, ...args: unknown[]) => unknown;
  readonly args: readonly unknown[];
  readonly token: LiquidModule.Token;
}

/** Tags that a template may have. The others read files, count across rows, or write several lines in a tag. */
export const templateTags: readonly string[] = [
  ...['assign', 'break', 'capture', 'case', 'comment', 'continue', 'for', 'if', 'raw', 'unless', '#'],
];

/** Characters and items that one rendering may make. */
const memoryLimit = 32_000_000;
const renderLimitMs = 1000;
const parseLimit = 1_000_000;

let loaded: typeof LiquidModule | undefined;

/** The library, which is loaded only where a template is. */
export function liquidModule(): typeof LiquidModule {
  loaded ??= createRequire(import.meta.url)('liquidjs') as typeof LiquidModule;
  return loaded;
}

function newLiquid(write?: (value: TemplateValue) => string): Liquid {
  const { Liquid, filters: engineFilters, toValue } = liquidModule();
  const liquid = new Liquid({
    // No template reads another.
    templates: {},
    dynamicPartials: false,
    relativeReference: false,
    ownPropertyOnly: true,
    strictFilters: true,
    timezoneOffset: 0,
    locale: 'en-US',
    parseLimit,
    renderLimit: renderLimitMs,
    memoryLimit,
    ...(write === undefined ? {} : { outputEscape: (value: unknown) => write(toValue(value)) }),
  });
  for (const name of Object.keys(liquid.tags)) if (!templateTags.includes(name)) delete liquid.tags[name];
  for (const name of Object.keys(liquid.filters)) delete (liquid.filters as Record<string, unknown>)[name];
  for (const [name, filter] of templateFilters) {
    const engineForm = (engineFilters as unknown as Record<string, Parameters<typeof engineFilter>[2]>)[name];
    const handler = filter.handler ?? engineFilter(filter, name, engineForm as NonNullable<typeof engineForm>);
    const plain: typeof handler = function (value, ...args) {
      const toPlain = (part: unknown) => (Array.isArray(part) ? part : toValue(part));
      return handler.call(this, toValue(value), ...args.map(toPlain));
    };
    liquid.registerFilter(name, filter.raw ? { raw: true, handler: plain as never } : (plain as never));
  }
  return liquid;
}

const engines = new Map<unknown, Liquid>();

/** The engine that writes each placeholder inside of a text by a function; without it, the one for placeholders alone. */
function liquidFor(write?: (value: TemplateValue) => string): Liquid {
  const liquid = engines.get(write) ?? newLiquid(write);
  engines.set(write, liquid);
  return liquid;
}

/** The parts of a text: texts, placeholders and tags. @throws the engine's error for one that is not closed */
export function tokensOf(written: string): TopLevelToken[] {
  const { Tokenizer, defaultOptions } = liquidModule();
  const read = (text: string) => new Tokenizer(text).readTopLevelTokens(defaultOptions);
  const first = read(written);
  const text = first
    .map((token) => ('contentRange' in token ? escapedMarks(token.getText()) : token.getText()))
    .join('');
  const tokens = text === written ? first : read(text);
  for (const token of tokens)
    if ('getContent' in token) {
      const content = token.getContent.bind(token);
      token.getContent = () => unmarked(content());
    }
  return tokens;
}

/** The content of a placeholder or a tag, and where it begins. */
export function contentRange(token: TopLevelToken): readonly [number, number] | undefined {
  return 'contentRange' in token ? (token as Range).contentRange : undefined;
}

export function parseTemplate(text: string, write?: (value: TemplateValue) => string): ParsedTemplate {
  return liquidFor(write).parser.parseTokens(tokensOf(text));
}

/** The reason why a rendering failed. It has no value: messages of the engine may quote one. */
function failureOf(error: unknown): TemplateFailure {
  let cause = error;
  for (let at = error; at instanceof Error; at = (at as { originalError?: unknown }).originalError) cause = at;
  if (cause instanceof TemplateFailure) return cause;
  const isLimit = cause instanceof Error && /limit exceeded$/.test(cause.message);
  if (isLimit || cause instanceof RangeError)
    return new TemplateFailure('the template takes more memory or time than one row may');
  return new TemplateFailure('a filter of the template cannot take this value');
}

/** Renders a text for the values of a row. @throws {TemplateFailure} */
export function renderText(parsed: ParsedTemplate, scope: object, write: (value: TemplateValue) => string): string {
  try {
    return liquidFor(write).renderSync(parsed, scope) as string;
  } catch (error) {
    throw failureOf(error);
  }
}

/** The value of a placeholder that is a text alone. @throws {TemplateFailure} */
export function evaluate(output: LiquidModule.Output, scope: object): TemplateValue {
  const { Context, toValue, toValueSync } = liquidModule();
  const liquid = liquidFor();
  try {
    const context = new Context(scope, liquid.options, { sync: true }, { liquid });
    const value = toValue(toValueSync(output.value.value(context, false) as never));
    return value === undefined ? null : value;
  } catch (error) {
    throw failureOf(error);
  }
}

/**
 * The value of a placeholder that has one column, if its filters have only literals as arguments: without the evaluation of the engine,
 * which takes several times as long. Undefined for any other placeholder.
 * @returns a function that throws {@link TemplateFailure}
 */
export function filtersAlone({
  value: written,
}: LiquidModule.Output): ((value: TemplateValue) => TemplateValue) | undefined {
  const { Context, TypeGuards, evalToken, toValue, toValueSync } = liquidModule();
  const [column, ...more] = written.initial.postfix;
  const isColumn = column !== undefined && TypeGuards.isPropertyAccessToken(column) && column.props.length === 1;
  const isLiteral = (arg: unknown) => TypeGuards.isQuotedToken(arg) || TypeGuards.isNumberToken(arg);
  const filters = written.filters as unknown as readonly EngineFilter[];
  if (!isColumn || column.variable !== undefined || more.length > 0) return undefined;
  if (!TypeGuards.isQuotedToken(column.props[0]) && !TypeGuards.isWordToken(column.props[0])) return undefined;
  if (!filters.every(({ args }) => args.every(isLiteral))) return undefined;
  const liquid = liquidFor();
  let used = 0;
  const use = (count: number) => {
    used += count;
    if (used > memoryLimit) throw new RangeError('memory limit exceeded');
  };
  const context = new Context({}, liquid.options, { sync: true }, { memoryLimit: { use } as never });
  const steps = filters.map(({ handler, args, token }) => ({
    handler,
    self: { context, token, liquid },
    args: args.map((arg) => toValueSync(evalToken(arg as never, context) as never)),
  }));
  return (value) => {
    used = 0;
    try {
      let result: unknown = value;
      for (const { handler, self, args } of steps) result = toValueSync(handler.call(self, result, ...args) as never);
      result = toValue(result);
      return result === undefined ? null : result;
    } catch (error) {
      throw failureOf(error);
    }
  };
}

export const plainText: (value: TemplateValue) => string = textOf;

/** Writes a value into a URL: all that is not a letter, a digit or one of `-._~` is percent-encoded. */
export function urlText(value: TemplateValue): string {
  return encodeURIComponent(textOf(value).toWellFormed()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

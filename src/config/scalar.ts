import type { Scalar } from 'yaml';
import { meant } from '../core/suggestions.js';
import { z } from '../core/zod.js';
import { allowedWords, type Unwrapped } from '../sdk/option.js';
import { markedLiteral } from '../sdk/template/marks.js';
import { nameFault, nameRule } from './names.js';
import { type ProblemDetails, quoted } from './problem.js';
import { expand, type Replacements } from './variables.js';
import { isScalar, parseDocument } from './yaml.js';
import { isNothing, kindOf } from './yaml-entries.js';

/** The result of reading a scalar. `variables` is empty if it names none. */
interface ScalarReading {
  readonly value?: unknown;
  readonly fault?: ProblemDetails;
  readonly variables: readonly string[];
  /** Files that it names and that others on the machine can read. */
  readonly exposed?: readonly string[];
}

/** Reads a text as a YAML scalar; a text that is no scalar stays text. */
function readAsScalar(text: string): unknown {
  const trimmed = text.trim();
  if (!/^(["'].*["']|[-+.\w]+|~)$/s.test(trimmed)) return text;
  const document = parseDocument(trimmed, { prettyErrors: false, logLevel: 'silent', schema: 'core' });
  const { contents, errors } = document;
  const whole = isScalar(contents) && contents.range?.[1] === trimmed.length;
  return whole && errors.length === 0 ? contents.value : text;
}

/** In words without the text, which may be a secret after all. */
const bareVariable = 'a variable needs braces: $\u007bNAME}; write $$ for a dollar';

/**
 * Whether a secret holds `$NAME`, as a shell writes a variable: it would be sent as it is. Of other options, those that usually come
 * of a variable are refused if they are such a name alone.
 */
function holdsBareVariable({ info }: Unwrapped, source: string): boolean {
  if (info?.secret) {
    const rest = source.replace(/\$\$|\$\{[^}]*\}?/g, ' ');
    return /\$[A-Z_][A-Z0-9_]+(?![A-Za-z0-9_])/.test(rest) || /^\$[A-Za-z_]\w*$/.test(rest);
  }
  return String(info?.example ?? '').startsWith('$\u007b') && /^\$[A-Z_][A-Z0-9_]*$/.test(source);
}

function isTextual(core: z.core.$ZodType): boolean {
  return !(
    core instanceof z.ZodNumber ||
    core instanceof z.ZodBoolean ||
    core instanceof z.ZodUnknown ||
    (core instanceof z.ZodLiteral && typeof core.value !== 'string')
  );
}

/** Checks a value against an option's whole schema; a fault uses the option's own words. */
function valueFault(
  schema: z.core.$ZodType,
  option: Unwrapped,
  value: unknown,
  text: string,
): ProblemDetails | undefined {
  const result = z.safeParse(schema, value);
  if (result.success) return undefined;
  const [issue] = result.error.issues;
  if (issue?.code === 'custom') return { message: issue.message, found: text };
  const { core, info } = option;
  const words = core instanceof z.ZodEnum ? (core.options as string[]) : [];
  const near = info?.secret || typeof value !== 'string' ? undefined : meant(value, words);
  if (core instanceof z.ZodEnum)
    return { message: 'unknown value', found: text, nearest: near, allowed: allowedWords(option) };
  // Only text of the file is repeated, never the value of a variable.
  const name = allowedWords(option).startsWith(nameRule) && text === JSON.stringify(value) ? String(value) : undefined;
  const message = name === undefined ? undefined : nameFault(name);
  if (message !== undefined) return { message };
  const isUnitless =
    /\bduration\b/.test(allowedWords(option)) && /^\d+$/.test(String(value)) && text.includes(String(value));
  const units = isUnitless ? `; with a unit it is ${value}m or ${value}h` : '';
  return { message: `must be ${allowedWords(option)}${units}`, found: text };
}

/** Reads one scalar for an option. Variables are replaced, text stays as written, numbers and booleans are YAML's. */
export function readScalar(
  schema: z.core.$ZodType,
  option: Unwrapped,
  node: Scalar | null,
  replacements: Replacements,
): ScalarReading {
  if (node === null || isNothing(node)) return { fault: nothing(option, node?.source ?? ''), variables: [] };
  const source = node.source ?? String(node.value);
  const literal = option.info?.template ? markedLiteral : undefined;
  const { text, used, missing, unread, exposed, faults, alone } = expand(source, { ...replacements, literal });
  if (faults[0] !== undefined) {
    const message = `${faults[0]}; write \${NAME}, \${NAME:-default} or \${file:PATH}, and $$ for a dollar`;
    return { fault: { message }, variables: [] };
  }
  if (missing.length > 0) return { fault: { message: unset(missing), unset: missing }, variables: used };
  if (unread.length > 0)
    return { fault: { message: [...new Set(unread)].join('; '), isUnread: true }, variables: used };
  if (text.includes('\0'))
    return { fault: { message: 'holds the character U+0000, which no option may have' }, variables: used };
  if (holdsBareVariable(option, source)) return { fault: { message: bareVariable }, variables: [] };
  const read = scalarValue(option, node, used.length > 0, text, alone);
  const value = alone && typeof read === 'string' ? (literal?.(read) ?? read) : read;
  const kind = describe(option, node, used, value);
  const fault = valueFault(schema, option, value, kind);
  return fault === undefined ? { value, variables: used, exposed } : { fault, variables: used };
}

function scalarValue(
  { core, info }: Unwrapped,
  node: Scalar,
  replaced: boolean,
  text: string,
  alone: boolean,
): unknown {
  if (isTextual(core)) {
    if (!alone || info?.secret || info?.verbatim) return text;
    const again = readAsScalar(text);
    return typeof again === 'string' ? again : text;
  }
  if (alone) return readAsScalar(text);
  return replaced ? text : node.value;
}

function unset(names: readonly string[]): string {
  const distinct = [...new Set(names)];
  if (distinct.length === 1) return `the variable ${distinct[0]} is not set`;
  return `the variables ${distinct.join(', ')} are not set`;
}

function nothing(option: Unwrapped, source: string): ProblemDetails {
  const message = `must be ${allowedWords(option)}`;
  if (source === '') return { message, found: option.required ? 'nothing' : 'nothing; leave the key out instead' };
  const advice = isTextual(option.core) ? '; put it in quotes if the text is meant' : '';
  return { message, found: `${source}${advice}` };
}

/** The value found, for a message: never the value of a variable, and never a secret. */
function describe({ info, core }: Unwrapped, node: Scalar, used: readonly string[], value: unknown): string {
  if (info?.secret) return value === '' ? 'empty text' : 'text';
  if (used.length > 0) {
    const names = [...new Set(used)].map((name) => `\${${name}}`).join(', ');
    return value === '' || value === null ? `nothing in ${names}` : `what ${names} gives`;
  }
  if (typeof value === 'string') {
    const hint = isTextual(core) ? '' : ', which is text';
    // A URL, even a broken one, may hold a password.
    return `${quoted(value.replace(/:\/\/.*$/s, '://…').replace(/^.*@/s, '…@'))}${hint}`;
  }
  const written = node.source ?? String(value);
  return typeof value === 'number' || typeof value === 'boolean' ? written : kindOf(node);
}

import { visible } from '../core/printable.js';
import { parseDurationMs } from '../core/quantities.js';
import { Secret } from '../core/secret.js';
import { z } from '../core/zod.js';

/** An option's properties besides its type: the source of its error messages, JSON Schema and reference page. */
export interface OptionInfo {
  /** One or two sentences: its effect and its consequences. */
  readonly description: string;
  /** As a user writes it in the YAML. */
  readonly example?: unknown;
  readonly unit?: string;
  /** No message shows its value, and users should put it in a variable. */
  readonly secret?: boolean;
  /** Whether a text of a secret option has a secret in it. Without it, all have, but for URLs without login, token and query. */
  readonly holdsSecret?: (written: string) => boolean;
  /** The text is taken literally, even if a variable holds a quoted YAML scalar. */
  readonly verbatim?: boolean;
  /** Texts in it are templates: variables are put in as they are, so that nothing in their values is read as one. */
  readonly template?: boolean;
  /** A path of a file or a folder: relative to the folder of the YAML file, made absolute for code. */
  readonly path?: boolean;
  /** The allowed values, in words, if the type does not say it well. */
  readonly allowed?: string;
  /** For a map of several kinds: further kinds that connectors add, in words. */
  readonly otherKinds?: string;
  /** For a map: sets of keys. Exactly one set must be present. */
  readonly forms?: readonly (readonly string[])[];
  /** For a map: keys of earlier versions, and the key that each was replaced by. */
  readonly replaced?: Readonly<Record<string, string>>;
  /** What `check` says, as JSON Schema, as far as that can say it: editors know it before `cdsync check` runs. */
  readonly editorRules?: Readonly<Record<string, unknown>> | undefined;
  /** Rules between the parts of a map or a list. Gets its readable parts, before defaults. */
  readonly check?: (value: unknown) => readonly OptionProblem[];
}

/** A broken rule, and its path inside the checked map or list. */
export interface OptionProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** The key whose absence breaks the rule. A key that is there, and was refused, is not absent. */
  readonly missing?: string;
  /** The fault is in a template: which `{{` or `{%` of the text, from 0. */
  readonly placeholder?: number;
  /** Default: `config_invalid`. */
  readonly code?: 'template_invalid';
}

/** The check of a list of names: none of them twice. */
export function namedOnce(value: unknown): readonly OptionProblem[] {
  const names = value as readonly unknown[];
  const second = names.findIndex((name, index) => names.indexOf(name) < index);
  return second < 0 ? [] : [{ path: [second], message: `${JSON.stringify(names[second])} is named twice` }];
}

/** The JSON Schema of maps with all of these keys. */
export function withKeys(...keys: readonly string[]) {
  return { type: 'object', properties: Object.fromEntries(keys.map((key) => [key, true])), required: keys };
}

const infos = new WeakMap<z.core.$ZodType, OptionInfo>();

/** Declares an option with its type and its properties. `.optional()` and `.prefault()` may follow. */
export function option<S extends z.ZodType>(schema: S, info: OptionInfo): S {
  // A copy, so that one schema may serve several options.
  const copy = schema.clone();
  infos.set(copy, info);
  return copy;
}

type CamelKey<K> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : K;

/** The type of a map's value: keys in camelCase, without the refused keys. */
export type Camel<T> = {
  readonly [K in keyof T as [T[K]] extends [undefined] ? never : CamelKey<K>]: T[K];
};

/** A YAML key as code sees it. */
export function camelKey(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** A map with exactly these keys; code sees them in camelCase. */
export function map<S extends z.core.$ZodLooseShape>(shape: S) {
  return z.strictObject(shape).transform((value) => {
    const entries = Object.entries(value).map(([key, part]) => [camelKey(key), part]);
    return Object.fromEntries(entries) as Camel<typeof value>;
  });
}

/** An option's schema without its defaults, optionality and transformations. */
export interface Unwrapped {
  readonly core: z.core.$ZodType;
  readonly info: OptionInfo | undefined;
  readonly required: boolean;
  /** The default as a user would write it; undefined if there is none. */
  readonly fallback: unknown;
}

export function unwrap(schema: z.core.$ZodType): Unwrapped {
  let core = schema;
  let info: OptionInfo | undefined;
  let required = true;
  let fallback: unknown;
  for (;;) {
    info ??= infos.get(core);
    if (core instanceof z.ZodPrefault) {
      required = false;
      fallback = core.def.defaultValue;
      core = core.def.innerType;
    } else if (core instanceof z.ZodOptional) {
      required = false;
      core = core.def.innerType;
    } else if (core instanceof z.ZodPipe) {
      core = core.def.in;
    } else {
      return { core, info, required, fallback };
    }
  }
}

/** The values that an option allows, in words. */
export function allowedWords({ core, info }: Unwrapped): string {
  if (info?.allowed !== undefined) return info.allowed;
  if (core instanceof z.ZodEnum) return [...core.options, ...(info?.otherKinds ? [info.otherKinds] : [])].join(', ');
  if (core instanceof z.ZodLiteral) return [...core.values].join(', ');
  if (core instanceof z.ZodBoolean) return 'true or false';
  if (core instanceof z.ZodNumber) return `a whole number from ${core.minValue} to ${core.maxValue}`;
  return 'text';
}

/** Text that is not empty. */
export function text(info: OptionInfo) {
  return option(z.string().min(1), { allowed: 'text that is not empty', ...info });
}

/** Text that identifies or matches something: kept character for character, `02134` and `1.50` too. */
export function verbatim(info: OptionInfo) {
  return text({ ...info, verbatim: true });
}

/** A path of a file or a folder. The YAML gives it relative to its own folder; code gets it absolute. */
export function path(info: OptionInfo) {
  return text({ allowed: 'a path', check: checkPath, ...info, path: true, verbatim: true });
}

/** The most bytes that Linux and macOS take for a name in a folder, and for a whole path. */
const maxNameBytes = 255;
const maxPathBytes = 1023;

function pathFault(path: string): string | undefined {
  if (process.platform === 'win32') return undefined;
  if (/^[A-Za-z]:[\\/]/.test(path))
    return 'a path of Windows, and this is another system: write /srv/data, or ./data beside this file';
  if (/^~(?:\/|$)/.test(path)) return 'only a shell knows ~ as a folder: write ${HOME} in its place';
  if (path !== visible(path)) return `has a character that no output shows: ${visible(path)}`;
  if (Buffer.byteLength(path) > maxPathBytes) return `a path of more than ${maxPathBytes} bytes`;
  if (path.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes))
    return `a name of more than ${maxNameBytes} bytes, which file systems refuse`;
  return undefined;
}

/** A path that would be another one than is meant, or that no file can have. */
export function checkPath(value: unknown): readonly OptionProblem[] {
  const message = pathFault(String(value));
  return message === undefined ? [] : [{ path: [], message }];
}

/** A whole number within bounds, both included. */
export function whole(from: number, to: number, info: OptionInfo) {
  return option(z.int().min(from).max(to), info);
}

export function flag(info: OptionInfo) {
  return option(z.boolean(), info);
}

/** One of a few words. */
export function choice<const V extends readonly [string, ...string[]]>(values: V, info: OptionInfo) {
  return option(z.enum(values), info);
}

/** As long as dates can name the time before it: some centuries at most. */
const span = String.raw`(\d{1,12}(\.\d+)?\s*ms|\d{1,9}(\.\d+)?\s*[sm]|\d{1,5}(\.\d+)?\s*[hdw])`;
const spanWords = 'a duration: a number and ms, s, m, h, d or w, such as 90s or 12h, 99999d at most';

/** Milliseconds, written with their unit: `90s`, `12h`. */
export function duration(info: OptionInfo) {
  const schema = z
    .string()
    .regex(new RegExp(`^${span}$`))
    .transform((written) => parseDurationMs(written) ?? 0);
  return option(schema, { allowed: spanWords, ...info });
}

/** Milliseconds, or `never`. */
export function durationOrNever(info: OptionInfo) {
  const schema = z
    .string()
    .regex(new RegExp(`^(never|${span})$`))
    .transform((written) => (written === 'never' ? ('never' as const) : (parseDurationMs(written) ?? 0)));
  return option(schema, { allowed: `never, or ${spanWords}`, ...info });
}

/** Text that no output shows: code gets a {@link Secret}. */
export function secret(pattern: RegExp, info: OptionInfo) {
  const schema = z
    .string()
    .regex(pattern)
    .transform((value) => new Secret(value));
  return option(schema, { allowed: 'text that is not empty', ...info, secret: true });
}

import { z } from 'zod';

/** What is known of an option beside its type; the error messages, the JSON Schema and the reference page read it here. */
export interface OptionFacts {
  /** One or two sentences: what it does, and what follows from it. */
  readonly description: string;
  /** As one writes it in the YAML. */
  readonly example?: unknown;
  readonly unit?: string;
  /** Its value is in no message, and belongs into a variable. */
  readonly secret?: boolean;
  /** The text is taken as it stands, even where a variable holds a quoted YAML scalar. */
  readonly verbatim?: boolean;
  /** A path of a file or a folder: taken from the folder of the YAML file, and absolute for those who read the option. */
  readonly path?: boolean;
  /** What is allowed, in words, where the type does not tell it well. */
  readonly allowed?: string;
  /** Of maps of several kinds: which others there may be, in words. */
  readonly otherKinds?: string;
  /** Of a map: the sets of keys of which exactly one must be given. */
  readonly forms?: readonly (readonly string[])[];
  /** Rules between the parts of a map or a list. Sees what was readable of it, before defaults. */
  readonly check?: (value: unknown) => readonly Finding[];
}

/** A broken rule, at a path inside the map or list that was checked. */
export interface Finding {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

const known = new WeakMap<z.core.$ZodType, OptionFacts>();

/** Declares an option: the schema is its type, the facts the rest. `.optional()` and `.prefault()` may follow. */
export function option<S extends z.ZodType>(schema: S, facts: OptionFacts): S {
  // A copy, so that one schema may serve several options.
  const own = schema.clone();
  known.set(own, facts);
  return own;
}

type CamelKey<K> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : K;

/** The value of a map with its keys in camelCase, without the keys that are refused. */
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

/** What an option's schema comes down to once defaults, optionality and transformations are taken off. */
export interface Unwrapped {
  readonly core: z.core.$ZodType;
  readonly facts: OptionFacts | undefined;
  readonly required: boolean;
  /** As one would write it; undefined where there is none. */
  readonly fallback: unknown;
}

export function unwrap(schema: z.core.$ZodType): Unwrapped {
  let core = schema;
  let facts: OptionFacts | undefined;
  let required = true;
  let fallback: unknown;
  for (;;) {
    facts ??= known.get(core);
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
      return { core, facts, required, fallback };
    }
  }
}

/** What an option allows, in words. */
export function allowedWords({ core, facts }: Unwrapped): string {
  if (facts?.allowed !== undefined) return facts.allowed;
  if (core instanceof z.ZodEnum) return [...core.options, ...(facts?.otherKinds ? [facts.otherKinds] : [])].join(', ');
  if (core instanceof z.ZodLiteral) return [...core.values].join(', ');
  if (core instanceof z.ZodBoolean) return 'true or false';
  if (core instanceof z.ZodNumber) return `a whole number from ${core.minValue} to ${core.maxValue}`;
  return 'text';
}

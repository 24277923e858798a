import { Secret } from '../core/secret.js';
import { rowNumberColumns } from '../core/sql.js';
import { z } from '../core/zod.js';
import { choice, flag, map, namedOnce, type OptionProblem, option, withKeys } from '../sdk/option.js';
import type { SourceDeclaration } from '../sources/declaration.js';

const decimalPattern = /^decimal\((\d{1,2}), ?(\d{1,2})\)$/;

const types: Readonly<Record<string, string>> = {
  text: 'VARCHAR',
  integer: 'BIGINT',
  number: 'DOUBLE',
  boolean: 'BOOLEAN',
  date: 'DATE',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
};

/** The DuckDB type that a configured type means; undefined if the text is no type. */
function duckdbType(written: string): string | undefined {
  const [, precision, scale] = decimalPattern.exec(written) ?? [];
  if (precision === undefined) return Object.hasOwn(types, written) ? types[written] : undefined;
  const fits = Number(precision) >= 1 && Number(precision) <= 38 && Number(scale) <= Number(precision);
  return fits ? `DECIMAL(${precision},${scale})` : undefined;
}

const typeWords = `${Object.keys(types).join(', ')} or decimal(precision, scale)`;

const columnType = z
  .string()
  .refine((written) => duckdbType(written) !== undefined, `must be ${typeWords}`)
  .transform((written) => duckdbType(written) as string);

/** Names that begin with `_` are left to the columns that cdsync adds. */
const newName = z
  .string()
  .regex(/^(?!_)[^\0]{1,63}$/)
  .refine((name) => !rowNumberColumns.includes(name.toLowerCase()), 'is a name that DuckDB gives the number of a row');

const minSaltBytes = 16;
const saltWords = `text of at least ${minSaltBytes} bytes, not one character repeated: \`cdsync salt\` makes one`;
/** A short key, or one of a single character, can be found by trying. The pattern is for editors, which count no bytes. */
const salt = z
  .string()
  .regex(/^(?![\0-\x7f]{0,15}$)(?!([\s\S])\1*$)/)
  .refine((written) => Buffer.byteLength(written) >= minSaltBytes, `must be ${saltWords}`)
  .transform((written) => new Secret(written));

const anyOfKeys = (...keys: readonly string[]) => ({ anyOf: keys.map((key) => withKeys(key)) });
const whereTrue = (key: string, rules: Readonly<Record<string, unknown>>) => ({
  if: { ...withKeys(key), properties: { [key]: { const: true } } },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
  then: rules,
});

/** What to do with one column before cdsync keeps anything of it. */
const columnRule = option(
  map({
    drop: flag({ description: 'Keeps nothing of the column.', example: true }).optional(),
    hash: flag({
      description:
        'Keeps HMAC-SHA-256 of each value, in hexadecimal digits. Equal values stay equal, and no one can read them.',
      example: true,
    }).optional(),
    normalize: choice(['email', 'phone'], {
      description:
        'Makes two ways to write a value one, before it is hashed. `email` trims it and makes it lower case; `phone` keeps digits and a leading plus.',
      example: 'email',
    }).optional(),
    salt: option(salt, {
      description:
        'Key of the HMAC, at least 16 bytes; `cdsync salt` makes one. Another key gives other hashes, so cdsync refuses it until `--rekey`.',
      example: `\${PII_SALT}`,
      allowed: saltWords,
      secret: true,
    }).optional(),
    mask: choice(['last4', 'email', 'all'], {
      description:
        'Keeps a part of each value: the last 4 characters; the first character and the domain of an email address; or only that there was a value.',
      example: 'last4',
    }).optional(),
    type: option(columnType, {
      description:
        'Type of the column. A value that does not fit exactly makes the column text, unless `contract.types` says otherwise.',
      example: 'date',
      allowed: typeWords,
    }).optional(),
    rename: option(newName, {
      description: 'Name of the column in tables and files.',
      example: 'postcode',
      allowed: 'a name of at most 63 characters that does not begin with _',
    }).optional(),
    track: flag({
      description:
        'With false, cdsync keeps the column up to date, but a new value alone is no change of the row, and history does not have it.',
      example: false,
    }).optional(),
  }),
  {
    description: 'One column, by the name of its field.',
    check: contradictions,
    editorRules: {
      minProperties: 1,
      allOf: [
        whereTrue('drop', { type: 'object', maxProperties: 1 }),
        whereTrue('hash', { ...withKeys('salt'), not: anyOfKeys('mask', 'type') }),
        {
          if: { type: 'object', properties: { hash: { const: false } } },
          // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
          then: { not: anyOfKeys('normalize', 'salt') },
        },
        { not: withKeys('mask', 'type') },
      ],
    },
  },
);

type Rule = Readonly<
  Partial<Record<'drop' | 'hash' | 'normalize' | 'salt' | 'mask' | 'type' | 'rename' | 'track', unknown>>
>;

function contradictions(value: unknown): OptionProblem[] {
  const { drop, hash, normalize, salt, mask, type } = value as Rule;
  const others = Object.keys(value as object).filter((key) => key !== 'drop');
  if (Object.keys(value as object).length === 0)
    return [{ path: [], message: 'an empty rule hides nothing: write drop: true, hash: true or another' }];
  if (drop === true && others[0] !== undefined) return [{ path: [others[0]], message: 'the column is dropped' }];
  const findings: OptionProblem[] = [];
  if (hash === true && salt === undefined)
    findings.push({
      path: ['hash'],
      message: 'a hash needs a salt beside it: { hash: true, salt: "${NAME}" }; `cdsync salt` makes one',
      missing: 'salt',
    });
  for (const [key, setting] of Object.entries({ normalize, salt })) {
    if (hash !== true && setting !== undefined)
      findings.push({ path: [key], message: 'is for hash: true only', missing: 'hash' });
  }
  if (hash === true && mask !== undefined)
    findings.push({ path: ['mask'], message: 'the column is hashed; choose one' });
  if ((hash === true || mask !== undefined) && type !== undefined) {
    findings.push({ path: ['type'], message: 'a hashed or masked column is text' });
  }
  return findings;
}

function sameNames(value: unknown): OptionProblem[] {
  const { '*': others } = value as Record<string, Rule | undefined>;
  if (others !== undefined && others.drop !== true)
    return [{ path: ['*'], message: 'all other columns can only be dropped: "*": { drop: true }' }];
  const names = new Map<string, string>();
  return Object.entries(value as Record<string, Rule | undefined>).flatMap(([column, rule]) => {
    const name = typeof rule?.rename === 'string' ? rule.rename.toLowerCase() : undefined;
    if (name === undefined) return [];
    const first = names.get(name);
    names.set(name, column);
    return first === undefined ? [] : [{ path: [column, 'rename'], message: `${first} already has this name` }];
  });
}

/** Rules for the columns of a stream. */
export const columns = option(z.record(z.string().min(1), columnRule), {
  description:
    'Rules for columns, by the name of the field (`email`), or by its path if an envelope field has that name (`attributes.id`). cdsync applies them before it writes anything but private staging files. `"*": { drop: true }` leaves out all attributes that you do not name.',
  example: { email: { hash: true, normalize: 'email', salt: `\${PII_SALT}` }, notes: { drop: true } },
  check: sameNames,
}).prefault({});

/** The only columns to keep: of a stream, of all streams of a job, or of a destination. */
export const select = option(
  z.array(option(z.string().min(1), { description: 'A column.', example: 'email' })).min(1),
  {
    description:
      'The only attributes to keep; the key and the envelope stay. cdsync stores nothing of another attribute, and warns when a new one appears. Default: all.',
    example: ['email', 'tier'],
    allowed: 'a list of at least one name',
    check: namedOnce,
  },
).optional();

type RuledSource = Pick<
  SourceDeclaration,
  'key' | 'hashesKey' | 'watched' | 'coverage' | 'refusedRules' | 'declared' | 'container'
>;

function keyFindings(rule: Rule, { hashesKey }: RuledSource): { name: string; message: string } | undefined {
  const harmful = Object.keys(rule).find((name) => ['drop', 'mask', 'type', 'rename', 'track'].includes(name));
  if (harmful !== undefined) return { name: harmful, message: 'the column is the key, which identifies rows' };
  if (rule.hash !== true || hashesKey) return undefined;
  return { name: 'hash', message: 'the column is the key, and records are asked for by it' };
}

/** The fault of the rules for one column, if any. */
function ruleFault(column: string, rule: Rule, source: RuledSource, key: readonly unknown[]) {
  const { watched, coverage, refusedRules } = source;
  const names = Object.keys(rule);
  const refused = names.find((name) => refusedRules?.names.includes(name));
  if (refused !== undefined) return { name: refused, message: refusedRules?.instead ?? '' };
  const [first] = names;
  if (first !== undefined && watched?.includes(column)) {
    return { name: first, message: 'the column decides which records are read again; no rule may change it' };
  }
  const ofKey = key.includes(column) ? keyFindings(rule, source) : undefined;
  if (ofKey !== undefined) return ofKey;
  const isStale = coverage === 'additions' && rule.track === false;
  return isStale
    ? { name: 'track', message: 'this source reads only new records, so the column cannot be kept up to date' }
    : undefined;
}

/** Whether another rule names a column by its path, and would count instead. An envelope field is another column. */
function isNamedTwice(
  column: string,
  rules: Readonly<Record<string, Rule>>,
  { declared, container }: RuledSource,
): boolean {
  return container !== undefined && !Object.hasOwn(declared, column) && Object.hasOwn(rules, `${container}.${column}`);
}

/** Rules that the source of a stream does not allow. */
export function unsuitableRules(source: RuledSource, stream: unknown): OptionProblem[] {
  const { columns: rules, ...options } = stream as { columns?: Record<string, Rule> } & Record<string, unknown>;
  const key = 'option' in source.key ? options[source.key.option] : source.key;
  return Object.entries(rules ?? {}).flatMap(([column, rule = {}]) => {
    if (isNamedTwice(column, rules ?? {}, source))
      return [
        { path: ['columns', column], message: `names the same column as attributes.${column}: leave one of them` },
      ];
    const fault = ruleFault(column, rule, source, Array.isArray(key) ? key : []);
    return fault === undefined ? [] : [{ path: ['columns', column, fault.name], message: fault.message }];
  });
}

const onChange = ['evolve', 'freeze', 'discard_value', 'discard_row'] as const;

/** What happens to a stream when its columns or their types change between two snapshots. */
export const contract = option(
  map({
    columns: choice(onChange, {
      description:
        'What to do with a column that the last snapshot does not have: `evolve` adds it, `freeze` fails the stream and names all such columns, `discard_value` leaves it out, `discard_row` leaves out the rows with a value in it.',
      example: 'freeze',
    }).prefault('evolve'),
    types: choice(onChange, {
      description:
        'What to do with a value that does not fit the type of its column: `evolve` widens the type and never narrows it, `freeze` fails the stream, `discard_value` keeps no value, `discard_row` keeps no row.',
      example: 'discard_value',
    }).prefault('evolve'),
  }),
  { description: 'What happens when columns or types change.' },
).prefault({});

/** How text is typed, for one stream or for all streams of a job. */
export const strings = choice(['keep', 'infer'], {
  description:
    'How text is stored: `keep` keeps it as text; `infer` makes a column integer, decimal, double, boolean, date or timestamp if every one of its texts can be given back exactly; an empty text is NULL there. A later text that does not fit makes the column text again, with every earlier text unchanged. Default: `keep`.',
  example: 'infer',
}).optional();

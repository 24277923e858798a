import { z } from 'zod';
import { type Finding, map, option } from '../sdk/option.js';
import { choice, flag, secret } from '../sdk/option-types.js';

const decimalPattern = /^decimal\((\d{1,2}), ?(\d{1,2})\)$/;

const types: Readonly<Record<string, string>> = {
  text: 'VARCHAR',
  integer: 'BIGINT',
  number: 'DOUBLE',
  boolean: 'BOOLEAN',
  date: 'DATE',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
};

/** The DuckDB type that a configured type means; undefined where it is none. */
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

/** Columns of the envelope, and those that cdsync adds, keep their names. */
const newName = z.string().regex(/^(?!_)[^\0]{1,63}$/);

/** What to do with one column before anything of it is kept. */
const columnRule = option(
  map({
    drop: flag({ description: 'Keeps nothing of the column.', example: true }).optional(),
    hash: flag({
      description:
        'Keeps HMAC-SHA-256 of each value, in hexadecimal digits: equal values stay equal, and cannot be read.',
      example: true,
    }).optional(),
    normalize: choice(['email', 'phone'], {
      description:
        'What is done to a value before it is hashed, so that two ways to write it come to one: `email` trims it and makes it lower case, `phone` keeps digits and a leading plus.',
      example: 'email',
    }).optional(),
    salt: secret(/^.{8,}$/s, {
      description:
        'Key of the HMAC, at least 8 characters. Another one gives other hashes: it is refused until `--rekey`.',
      example: `\${PII_SALT}`,
      allowed: 'text of at least 8 characters',
    }).optional(),
    mask: choice(['last4', 'email', 'all'], {
      description:
        'Keeps a part of each value: its last 4 characters, the first character and the domain of an email address, or nothing but that there was one.',
      example: 'last4',
    }).optional(),
    type: option(columnType, {
      description:
        'Type of the column. A value that does not fit it exactly makes the column text, or is treated as `contract.types` says.',
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
        'false: the column is kept up to date, but a new value alone is no change of the row, and history does not have it.',
      example: false,
    }).optional(),
  }),
  { description: 'One column, by the name of its field.', check: contradictions },
);

type Rule = Readonly<
  Partial<Record<'drop' | 'hash' | 'normalize' | 'salt' | 'mask' | 'type' | 'rename' | 'track', unknown>>
>;

function contradictions(value: unknown): Finding[] {
  const { drop, hash, normalize, salt, mask, type } = value as Rule;
  const others = Object.keys(value as object).filter((key) => key !== 'drop');
  if (drop === true && others[0] !== undefined) return [{ path: [others[0]], message: 'the column is dropped' }];
  const findings: Finding[] = [];
  if (hash === true && salt === undefined)
    findings.push({ path: ['hash'], message: 'a hash needs a salt: salt: ${NAME}' });
  for (const [key, given] of Object.entries({ normalize, salt })) {
    if (hash !== true && given !== undefined) findings.push({ path: [key], message: 'is for hash: true only' });
  }
  if (hash === true && mask !== undefined)
    findings.push({ path: ['mask'], message: 'the column is hashed; choose one' });
  if ((hash === true || mask !== undefined) && type !== undefined) {
    findings.push({ path: ['type'], message: 'what is hashed or masked is text' });
  }
  return findings;
}

function sameNames(value: unknown): Finding[] {
  const names = new Map<string, string>();
  return Object.entries(value as Record<string, Rule | undefined>).flatMap(([column, rule]) => {
    const name = typeof rule?.rename === 'string' ? rule.rename.toLowerCase() : undefined;
    if (name === undefined) return [];
    const first = names.get(name);
    names.set(name, column);
    return first === undefined ? [] : [{ path: [column, 'rename'], message: `${first} is called so already` }];
  });
}

/** Rules for the columns of a stream. */
export const columns = option(z.record(z.string().min(1), columnRule), {
  description:
    'Rules for columns, by the name of the field (`email`), or its path where an envelope field has that name (`attributes.id`). They apply before anything but the private spool is written.',
  example: { email: { hash: true, normalize: 'email', salt: `\${PII_SALT}` }, notes: { drop: true } },
  check: sameNames,
}).prefault({});

interface ColumnLimits {
  /** Fields that tell rows apart. */
  readonly key: readonly string[];
  /** Whether they may be hashed: not where records are asked for by them. */
  readonly hashesKey?: true;
  /** Fields that decide what is read again. */
  readonly watched?: readonly string[];
  /** Whether a run only brings what is new, so that untracked columns cannot be kept up to date. */
  readonly addsOnly?: true;
}

/** By source; of a query the key is as configured. */
const limits: Readonly<Record<string, ColumnLimits>> = {
  index_profiles: { key: ['id'], hashesKey: true },
  profiles: { key: ['id'], hashesKey: true },
  realtime_profiles: { key: ['profile_id'], hashesKey: true },
  segment_members: { key: ['segment_id', 'profile_id'], hashesKey: true },
  profile_segments: { key: ['profile_id', 'segment_id'], hashesKey: true },
  indexes: { key: ['id'] },
  segments: { key: ['id'] },
  campaigns: { key: ['id'] },
  campaign_drafts: { key: ['id'] },
  collection_stats: { key: ['collection', 'sampled_at'], addsOnly: true },
  collection_history: { key: ['collection', 'scale', 'bucket'], addsOnly: true },
  audit_events: { key: ['event_id'], watched: ['happened_at'], addsOnly: true },
  ingest_jobs: { key: ['id'], watched: ['tables'], addsOnly: true },
  workflow_runs: { key: ['id'], watched: ['state'], addsOnly: true },
};

function ruleFindings(column: string, rule: Rule, { key, hashesKey, watched, addsOnly }: ColumnLimits): Finding[] {
  const at = (name: string, message: string): Finding => ({ path: ['columns', column, name], message });
  const [first] = Object.keys(rule);
  const harmful = Object.keys(rule).find((name) => ['drop', 'mask', 'type', 'rename', 'track'].includes(name));
  if (first !== undefined && watched?.includes(column))
    return [at(first, 'decides what is read again, and stays as it is')];
  if (key.includes(column)) {
    if (harmful !== undefined) return [at(harmful, 'the column is the key, which tells rows apart')];
    if (rule.hash === true && hashesKey !== true)
      return [at('hash', 'the column is the key, and records are asked for by it')];
  }
  return addsOnly && rule.track === false ? [at('track', 'this source only brings what is new')] : [];
}

/** Rules that the source of a stream does not allow. */
export function unsuitableRules(value: unknown): Finding[] {
  const { source, key, columns: rules } = value as { source?: string; key?: unknown; columns?: Record<string, Rule> };
  const isQuery = source === 'sql';
  const ofQuery = { key: Array.isArray(key) ? key : [], hashesKey: true } as const;
  const limit = isQuery ? ofQuery : limits[source ?? ''];
  return Object.entries(rules ?? {}).flatMap(([column, rule = {}]) => {
    const own = isQuery ? Object.keys(rule).find((name) => name === 'rename' || name === 'type') : undefined;
    if (own !== undefined) return [{ path: ['columns', column, own], message: 'let the query do it: a cast, or AS' }];
    return limit === undefined ? [] : ruleFindings(column, rule, limit);
  });
}

const onChange = ['evolve', 'freeze', 'discard_value', 'discard_row'] as const;

/** What may change of a stream's columns between one snapshot and the next. */
export const contract = option(
  map({
    columns: choice(onChange, {
      description:
        'When a column appears that the last snapshot does not have: `evolve` adds it, `freeze` fails the stream and names all of them, `discard_value` leaves it out, `discard_row` leaves out the rows that have a value in it.',
      example: 'freeze',
    }).prefault('evolve'),
    types: choice(onChange, {
      description:
        'When a value does not fit the type of its column: `evolve` widens the type, and never narrows it; `freeze` fails the stream; `discard_value` keeps no value, `discard_row` no row.',
      example: 'discard_value',
    }).prefault('evolve'),
  }),
  { description: 'What happens when columns or types change.' },
).prefault({});

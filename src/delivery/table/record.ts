import { CdsyncError } from '../../core/errors.js';
import { storedType } from '../../core/stored-texts.js';
import { z } from '../../core/zod.js';

const entrySchema = z.looseObject({
  /** Column of the table; null: a rule of the destination drops it. */
  target: z.string().nullable(),
  /** The type that the column was declared with, as DuckDB spells it. */
  kind: storedType,
  /** The name that was wanted for it. */
  as: z.string(),
  /** Fingerprint of all rules on the column: the stream's and the destination's. */
  rule: z.string(),
  /** The generation in which this rule began. */
  since: z.number(),
  /** The column beside it that has the text of every value. */
  variant: z.string().nullable(),
  /** The type in the stream, as DuckDB spells it. */
  stream_type: storedType,
  tracked: z.boolean(),
  /** Whether the column was only ever given integers that doubles hold: only then it may become one of doubles. */
  safe: z.boolean(),
  /** The format of the texts that are values of `kind` (`DATE %d.%m.%Y`): only by it does a text become such a value. */
  form: z.string().nullable().default(null),
});

/** The place of a stream's column in the table. */
export type MapEntry = z.infer<typeof entrySchema>;

const namedKind = z.tuple([z.string(), storedType]);

/** A JSON object as a map: names of columns may be `__proto__`. */
function mapOf<T extends z.ZodType>(value: T) {
  const entries = z.preprocess((object) => Object.entries(object ?? {}), z.array(z.tuple([z.string(), value])));
  return entries.transform((pairs): ReadonlyMap<string, z.output<T>> => new Map(pairs as [string, z.output<T>][]));
}

const recordSchema = z.looseObject({
  version: z.literal(1),
  /** Digest of the tenant's id. */
  tenant: z.string(),
  job: z.string(),
  /** The last stores that wrote the table, the newest last. */
  stores: z.array(z.object({ id: z.string(), since: z.string() })),
  store_id: z.string(),
  sequence: z.number(),
  run_id: z.string(),
  generation: z.number(),
  load: z.string(),
  /** The stamp that the table should have; null if it cannot be stamped. */
  stamp: z.string().nullable(),
  mode: z.enum(['append', 'upsert', 'mirror', 'replace']),
  deletes: z.enum(['hard', 'soft']),
  shape: z.enum(['keyed', 'append']),
  /** Paths of the key's columns in the stream. */
  key: z.array(z.string()),
  /** By the column's path in the stream's records: it stays when a rule renames the column. */
  map: mapOf(entrySchema),
  /** Columns of the table that have no stream column any more: empty, used again by one of the same type. */
  retired: mapOf(storedType),
  /** Of those that had texts as values of their type, the format of these texts, as in `form`. */
  retired_forms: mapOf(z.string()).optional(),
  /** Every column of ours, with its type as the destination spells it. */
  columns: mapOf(z.string()),
  rows: z.number(),
  /** Number of the last erasure that was carried out. */
  erased: z.number(),
  /** How many values the job's folder lists because the destination cannot hold them. */
  refused: z.number(),
  /** `append`: the run whose snapshot `--full` appended last. */
  full_of: z.string().nullable(),
  verified_at: z.string().nullable(),
  delivered_at: z.string(),
  action: z.string(),
  why: z.string(),
  /**
   * The first load after which something is left to remove: older files, a table of staged rows. They may hold values that are gone
   * from the table, so this stays until the removal has succeeded.
   */
  owed: z.looseObject({ load: z.string(), since: z.string() }).nullable().default(null),
  /** A delivery that was begun; `fresh`: it made the table. */
  pending: z
    .looseObject({
      load: z.string(),
      fresh: z.boolean(),
      added: z.array(namedKind),
      widened: z.array(namedKind),
      since: z.string(),
    })
    .nullable(),
});

/** The record of a table at its destination, written in the commit that wrote the rows. */
export type TableRecord = z.infer<typeof recordSchema>;
export type Pending = NonNullable<TableRecord['pending']>;

/**
 * The record in the text of a row of `_cdsync_state`.
 * @throws {CdsyncError} `state_unreadable`
 */
export function parseRecord(text: string, table: string): TableRecord {
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new CdsyncError(`the record of table "${table}" in _cdsync_state cannot be read`, {
      code: 'state_unreadable',
      hint: 'a newer cdsync may have written it; else delete that row, and push with --adopt, which loads all rows again',
      cause,
    });
  }
}

/** The text of a record, as {@link parseRecord} reads it. */
export function recordText(record: TableRecord): string {
  return JSON.stringify(record, (_, value) => (value instanceof Map ? Object.fromEntries(value) : value));
}

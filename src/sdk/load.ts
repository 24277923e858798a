import type { RecordBatch } from 'apache-arrow';
import type { ColumnType, StreamColumn } from './column-type.js';
import type { Digest } from './sql/row-sum.js';

/** Limits of a column of the destination. Rows with values beyond them are refused before they are sent. */
export interface ValueLimits {
  /** The column cannot hold the character U+0000, in JSON not as `\u0000` either. */
  readonly nul?: 'refused';
  /** Most bytes of UTF-8 that a text, or a JSON text, may have. */
  readonly maxBytes?: number;
  /** The first and the last day, ISO 8601, that a date or a timestamp may fall on. */
  readonly days?: { readonly first: string; readonly last: string };
  /** What else it cannot hold: SQL that is true for such a value, given SQL of the value as it is handed over, and why. */
  readonly others?: (value: string) => readonly { readonly reason: string; readonly when: string }[];
}

/** How a column of a stream becomes one of the destination. */
export interface ColumnMapping {
  /** Its type in the destination, spelled as {@link TableDestination.describe} spells it. */
  readonly type: string;
  /**
   * The DuckDB type that its values are cast to before they are handed over, such as `VARCHAR`, `BIGINT` or `JSON`; left out
   * if it is the stream's own. A cast to `JSON` makes JSON text, with numbers digit for digit.
   */
  readonly as?: string;
  readonly limits?: ValueLimits;
}

type PlainKind = Exclude<ColumnType['kind'], 'decimal' | 'list' | 'struct'>;

/** The types of a destination that stores lists and structs as JSON. */
export type TypeTable = Readonly<Record<PlainKind, string | ColumnMapping>> & {
  readonly decimal: (digits: { readonly precision: number; readonly scale: number }) => string | ColumnMapping;
};

/** {@link TableConnector.mapColumn} from a table of types. */
export function mapsColumns(types: TypeTable): (type: ColumnType) => ColumnMapping {
  return (type) => {
    const { kind } = type;
    const mapping =
      kind === 'decimal' ? types.decimal(type) : types[kind === 'list' || kind === 'struct' ? 'json' : kind];
    return typeof mapping === 'string' ? { type: mapping } : mapping;
  };
}

/** A column of a table in the destination. */
export interface TableColumn {
  readonly name: string;
  /** The destination's own type. */
  readonly type: string;
}

/** A column that cdsync fills, with the type that it was declared with. */
export interface TargetColumn extends TableColumn {
  readonly kind: ColumnType;
}

/** A table as the destination shows it. */
export interface FoundTable {
  /** All columns, also those of others. Types are compared as text with those found after cdsync's own DDL. */
  readonly columns: readonly TableColumn[];
  /** Number of its rows. */
  readonly rows: number;
  /** The text that {@link Load.stamp} last was; null if nothing; undefined if the table cannot be stamped. */
  readonly stamp: string | null | undefined;
}

/** A table that a stream is delivered to. */
export interface TargetTable {
  readonly name: string;
  /** The columns that cdsync fills, in order, `_synced_at` and its kind included. */
  readonly columns: readonly TargetColumn[];
  /** The key columns. */
  readonly key: readonly string[];
  /** Whether keys are unique; false in mode `append`, whose rows are changes. */
  readonly isKeyed: boolean;
}

/** Which row of `_cdsync_state` a record is in. */
export interface StateKey {
  readonly destination: string;
  readonly stream: string;
  readonly table: string;
}

/** A row of `_cdsync_state`: a record, and the number of times that it was written. */
export interface StateRow extends StateKey {
  readonly version: number;
  readonly record: string;
}

/** The rows of `_cdsync_state` about a stream and its table. */
export interface TableState {
  /** The row of the stream for the table; undefined if there is none. */
  readonly own: StateRow | undefined;
  /** Rows of other streams or destinations for the same table, as the destination compares names. */
  readonly others: readonly StateRow[];
  /** Other tables of the same stream of the same destination. */
  readonly former: readonly StateRow[];
}

/** The changes to a table before its rows are written. Each may come again after a crash. */
export interface TableChange {
  /** Drop the table, because it is made again. */
  readonly drop: boolean;
  readonly create: boolean;
  /** Columns that the table lacks; make them nullable. */
  readonly add: readonly TargetColumn[];
  /** Only changes that {@link TableConnector.widens} allows. */
  readonly widen: readonly TargetColumn[];
}

/**
 * The effect of a load's rows:
 * - `fill`: inserts them into a table that this load has made.
 * - `append`: inserts each row. `runs`: the values that `_run_id` has in them.
 * - `merge`: the first column of the rows, `_op`, is `upsert` or `delete`; no key is there twice. An upsert replaces the row with
 *   its key, or inserts one. A delete removes the row with its key; a key that the table lacks is not an error. `absent` says
 *   what happens to rows of the table whose key is not among the load's: `keep` leaves them, `delete` removes them, `mark`
 *   sets `_deleted_at` to {@link Load.moment} where it is NULL. Only a reload, which has all rows of the snapshot, has others
 *   than `keep`, or columns to clear; it may leave rows as they are that differ in nothing but `_synced_at`. An upsert sets
 *   `_deleted_at`, if the table has it, to the row's value.
 */
export type Write =
  | { readonly type: 'fill' }
  | { readonly type: 'append'; readonly runs: readonly string[] }
  | { readonly type: 'merge'; readonly absent: 'keep' | 'delete' | 'mark'; readonly isReload: boolean };

/** A column of the rows that are handed over. */
export interface LoadColumn extends StreamColumn {
  /** The type of the destination's column; for `_op` in a merge, the type that the staging table needs. */
  readonly targetType: string;
  /** The type of the values in files and batches: {@link StreamColumn.type}, or that of {@link ColumnMapping.as}. */
  readonly handedOverAs: ColumnType;
}

/** One file of rows. It is removed once the next is asked for. */
export interface DataFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  /**
   * Takes out a value that the destination refuses, for destinations that say where it is: the value becomes NULL, and a reject. A
   * row whose key is refused, or whose column is not known, is left out.
   * Fails the load if the job says `on_reject: fail`.
   * @param row counted from 1, in this file
   * @returns a new file
   */
  refuse(row: number, why: { readonly column?: string | undefined; readonly reason: string }): Promise<DataFile>;
  /** The same for several values: the file is written again once. */
  refuseAll(values: readonly RefusedValue[]): Promise<DataFile>;
}

/** A value that the server has refused, by its place in a file. */
export interface RefusedValue {
  /** Counted from 1. */
  readonly row: number;
  /** Undefined if the server does not say. */
  readonly column?: string | undefined;
  readonly reason: string;
}

/** The rows of one load. Read them once, either as files or as batches. */
export interface LoadData {
  /** The columns, in the order that files and batches have. */
  readonly columns: readonly LoadColumn[];
  /** The number of rows before any is refused. */
  readonly rows: number;
  /** The number of rows handed over so far, without those refused since: this many must have arrived. */
  readonly handedOver: number;
  /** Files in the format that the connector declares. Each is written while the one before it is loaded. */
  files(): AsyncIterable<DataFile>;
  /** Arrow batches, for a connector that sends row by row: JSON and decimals as Utf8, timestamps in microseconds. */
  batches(): AsyncIterable<RecordBatch>;
}

/** A check of the written rows, before the load is committed. */
export interface ReadBack {
  /** The columns whose values are compared, those of the key first. */
  readonly columns: readonly TargetColumn[];
  /**
   * Compares the rows that the destination finds with those that were handed over, which are summed at the same time.
   * @param hashed names of the columns whose texts are in the sum, in the order of {@link columns}; the others have no text
   * @param digest the hash of the rows; default `md5`
   * @throws {CdsyncError} `delivery_differs`: the load must be rolled back
   */
  check(hashed: readonly string[], find: () => Promise<FoundRows>, digest?: Digest): Promise<void>;
}

/** The rows of a load as they were found in the table. */
export interface FoundRows {
  /** Rows of a `fill` or `append`; for a `merge`, rows with the key of an upsert. */
  readonly rows: number;
  /** The sum of {@link rowNumber} over them, from the texts of the columns that have one. */
  readonly sum: string;
  /** The same sums for each of these columns alone: asked for if the sum is another. */
  readonly sums: () => Promise<ReadonlyMap<string, string>>;
  /** Rows with the key of a delete that are still there; marked ones do not count. */
  readonly left: number;
  /** Columns without a text that differ from the staged rows, by the destination's own comparison. */
  readonly differing: readonly string[];
  /** After a reload: rows that are not marked as deleted. */
  readonly live: number | undefined;
}

/** The result of a load before it is committed. */
export interface LoadOutcome {
  /** Rows of the table. */
  readonly rows: number;
  /** All columns, as the destination spells their types. */
  readonly columns: readonly TableColumn[];
  /** The stamp that the table now has; null if it cannot be stamped. */
  readonly stamp: string | null;
  /**
   * Whether something is left to remove once the load is committed, or could not be removed: {@link TableDestination.removeLeft} does
   * that, and the record has it as owed until it succeeds. Default: no.
   */
  readonly owes?: boolean;
}

/** A row of `_cdsync_loads`, by its columns: {@link loadColumnNames}. */
export type LoadLine = Readonly<Record<string, string | number>>;

/** The record to commit with the rows, and the line about the load. */
export interface Finished {
  readonly record: string;
  readonly line: LoadLine;
}

/** One load of one stream into its table. */
export interface Load {
  readonly state: StateKey;
  readonly table: TargetTable;
  /** The state row as it was read; undefined if there was none. It must be unchanged when the load is committed. */
  readonly before: StateRow | undefined;
  /**
   * The record to commit before {@link change}, where DDL or rows are not undone with the transaction; undefined if there is no DDL.
   * A destination without transactions writes it always.
   */
  readonly intent: string;
  readonly change: TableChange;
  readonly write: Write;
  /** Columns of the table to set to NULL in the rows that are merged. */
  readonly empty: readonly string[];
  /** Columns to set to NULL in the rows that the load lacks: in `append`, in all rows that were there. */
  readonly clear: readonly string[];
  /** Keys whose rows are deleted first: for each, the text of every key column, as `canonicalText` writes its values. */
  readonly erase: readonly (readonly string[])[];
  /** `append` without transactions: rows of this unfinished load are deleted first. The column `_cdsync_load` names the load. */
  readonly undo: string | undefined;
  /** State rows to delete: of streams from which the table is taken over. */
  readonly supersedes: readonly StateKey[];
  readonly data: LoadData;
  readonly readBack: ReadBack | undefined;
  /** New with each attempt, and begins with the generation: `7:…`. */
  readonly id: string;
  /** Whether the table must get a new stamp although the destination stamps reloads only. */
  readonly isReload: boolean;
  /** ISO 8601, UTC, to the millisecond. */
  readonly moment: string;
  /** The number of rows before. */
  readonly rows: number;
  finish(outcome: LoadOutcome): Finished;
  /** Does the part of the load that other sessions of this delivery would make fail, or wait: the transaction. */
  inTurn?<T>(work: () => Promise<T>): Promise<T>;
  /** Aborts when the run is stopped: roll the load back then, and reject soon. */
  readonly signal: AbortSignal;
}

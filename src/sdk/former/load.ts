import type { RecordBatch } from 'apache-arrow';
import type { ColumnType, StreamColumn } from '../column-type.js';
import type { Watermark } from './watermark.js';

/** Limits of a column of the destination. Rows with values beyond them are refused before they are sent. */
export interface ValueLimits {
  /** The column cannot hold the character U+0000, in JSON not as `\u0000` either. */
  readonly nul?: 'refused';
  /** Most bytes of UTF-8 that a text, or a JSON text, may have. */
  readonly maxBytes?: number;
  /** The first and the last day, ISO 8601, that a date or a timestamp may fall on. */
  readonly days?: { readonly first: string; readonly last: string };
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

/** A column of a table in the destination, existing or planned. */
export interface TableColumn {
  readonly name: string;
  /** The destination's own type. */
  readonly type: string;
}

/** An existing table, as {@link TableDestination.describe} finds it. */
export interface TableDescription {
  readonly columns: readonly TableColumn[];
  /** Whether it has no rows. */
  readonly isEmpty: boolean;
}

/** A table that a stream is delivered to. */
export interface TargetTable {
  readonly name: string;
  /** The columns that cdsync fills, in order, `_synced_at` and its kind included. */
  readonly columns: readonly TableColumn[];
  /** The key columns; empty for a table of mode `append`, whose rows are changes. */
  readonly key: readonly string[];
}

/** A change to a table before it can be loaded. The same change may come again after a crash. */
export type SchemaChange =
  | { readonly type: 'create' }
  /** Columns that the table lacks; make them nullable. */
  | { readonly type: 'add_columns'; readonly columns: readonly TableColumn[] }
  /** Comes only if {@link TableConnector.widens} allows it, or if no row has a value in the column (`isEmpty`). */
  | {
      readonly type: 'change_type';
      readonly column: TableColumn;
      readonly from: string;
      readonly isEmpty: boolean;
    };

/**
 * What a load does with its rows:
 * - `append`: inserts each row. Other modes use it too, to fill an empty table.
 * - `merge`: the first column of the rows, `_op`, is `upsert` or `delete`; no key comes twice. An upsert replaces the row with
 *   its key, or inserts one. A delete removes the row with its key; a key that the table lacks is not an error. `absent` says
 *   what happens to rows of the table whose key is not among the load's: `keep` leaves them, `delete` removes them, `mark`
 *   sets `_deleted_at` to {@link Load.deliveredAt} where it is NULL.
 * - `replace`: afterwards the table holds exactly these rows; no reader sees it empty or half full.
 */
export type LoadAction =
  | { readonly type: 'append' }
  | { readonly type: 'merge'; readonly absent: 'keep' | 'delete' | 'mark' }
  | { readonly type: 'replace' };

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
   * Takes out a row that the destination refused, and keeps it as a reject: for destinations that say which row they refuse.
   * Fails the load if the job says `on_reject: fail`.
   * @param row counted from 1, in this file
   * @returns a new file with the other rows
   */
  refuse(row: number, why: { readonly column?: string | undefined; readonly reason: string }): Promise<DataFile>;
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
  /** Arrow batches: JSON and decimals as Utf8, timestamps in microseconds. */
  batches(): AsyncIterable<RecordBatch>;
}

/** One load of one stream into its table. */
export interface Load {
  readonly stream: string;
  /** The same for every attempt at the same rows, so that a destination can recognise rows that it already has. */
  readonly id: string;
  /** The run whose snapshot the table holds after the load. */
  readonly runId: string;
  readonly table: TargetTable;
  readonly action: LoadAction;
  readonly data: LoadData;
  /** ISO 8601, UTC, to the millisecond. */
  readonly deliveredAt: string;
  /** The watermark as it was read; undefined if there was none. It must be unchanged when the load is committed. */
  readonly before: Watermark | undefined;
  /** The watermark to commit with the rows. */
  readonly after: Watermark;
  /** Aborts when the run is stopped: roll the load back then, and reject soon. */
  readonly signal: AbortSignal;
}

import type { RecordBatch } from 'apache-arrow';
import type { ColumnType, StreamColumn } from './column-type.js';
import type { Watermark } from './watermark.js';

/** What of a value's range a column of the destination does not hold. Rows beyond it are refused before they are sent. */
export interface ValueLimits {
  /** The character U+0000 is not held; in JSON not as `\u0000` either. */
  readonly nul?: 'refused';
  /** Bytes of UTF-8 that a text, or a JSON text, may have. */
  readonly maxBytes?: number;
  /** The first and the last day, ISO 8601, that a date or a timestamp may be of; of years beyond these a column may know nothing. */
  readonly days?: { readonly first: string; readonly last: string };
}

/** How a column of a stream becomes one of the destination. */
export interface ColumnMapping {
  /** Its type in the destination, spelled as {@link TableDestination.describe} spells it. */
  readonly type: string;
  /**
   * The DuckDB type that its values are cast to before they are handed over, where it is not the stream's own: `VARCHAR`,
   * `BIGINT`, `JSON`. To `JSON` everything becomes JSON text, numbers digit for digit.
   */
  readonly as?: string;
  readonly limits?: ValueLimits;
}

/** A column of a table as it is, or is to be, in the destination. */
export interface TableColumn {
  readonly name: string;
  /** The destination's own type. */
  readonly type: string;
}

/** What {@link TableDestination.describe} finds. */
export interface TableDescription {
  readonly columns: readonly TableColumn[];
  /** Whether it has any row. */
  readonly isEmpty: boolean;
}

/** A table that a stream is delivered to. */
export interface TargetTable {
  readonly name: string;
  /** All its columns that cdsync fills, `_synced_at` and the like included, in order. */
  readonly columns: readonly TableColumn[];
  /** Columns that tell its rows apart; empty for a table of `append`, whose rows are changes. */
  readonly key: readonly string[];
}

/** What has to be done to a table before it can be loaded. Each may be asked for again after a crash. */
export type SchemaChange =
  | { readonly type: 'create' }
  /** Columns of the table that are not there yet, all to be nullable. */
  | { readonly type: 'add_columns'; readonly columns: readonly TableColumn[] }
  /** Only where {@link TableConnector.widens} says so, or where no row has a value in the column (`isEmpty`). */
  | {
      readonly type: 'change_type';
      readonly column: TableColumn;
      readonly from: string;
      readonly isEmpty: boolean;
    };

/**
 * What a load makes of its rows:
 * - `append`: each row is inserted. Into an empty table also in the other modes.
 * - `merge`: the first column of the rows, `_op`, is `upsert` or `delete`; no key comes twice. A row takes the place of the
 *   one that has its key, or is inserted; a delete takes its row away, and is no error where there is none. `absent` says
 *   what happens to rows of the table whose key does not come at all: they stay; they go; or `_deleted_at` is set to
 *   {@link Load.deliveredAt} where it is NULL.
 * - `replace`: the table holds exactly these rows afterwards, and no reader sees it empty or half full.
 */
export type LoadAction =
  | { readonly type: 'append' }
  | { readonly type: 'merge'; readonly absent: 'keep' | 'delete' | 'mark' }
  | { readonly type: 'replace' };

/** A column of the rows that are handed over. */
export interface LoadColumn extends StreamColumn {
  /** The type of the destination's column; of `_op` in a merge, the one that its staging table needs. */
  readonly targetType: string;
  /** The type in which its values come: that of {@link StreamColumn.type}, or of {@link ColumnMapping.as}. */
  readonly handedOverAs: ColumnType;
}

/** One file of rows. It is removed once the next is asked for. */
export interface DataFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  /**
   * Takes rows out that the destination will not have, and keeps them as rejects: for connectors that are told which row was
   * refused. Fails the load where the job says `on_reject: fail`.
   * @param row counted from 1, in this file
   * @returns the same rows without it, in a file of its own
   */
  refuse(row: number, why: { readonly column?: string | undefined; readonly reason: string }): Promise<DataFile>;
}

/** The rows of one load. They can be read once, as files or as batches. */
export interface LoadData {
  /** In the order of the columns in files and batches. */
  readonly columns: readonly LoadColumn[];
  /** Rows that there are before any is refused. */
  readonly rows: number;
  /** Rows in what was handed over so far, without those that were refused since: what must have arrived. */
  readonly handedOver: number;
  /** In the format that the connector declares, written while the file before is loaded. */
  files(): AsyncIterable<DataFile>;
  /** As Arrow: JSON and decimals as Utf8, timestamps in microseconds. */
  batches(): AsyncIterable<RecordBatch>;
}

/** One load of one stream into its table. */
export interface Load {
  readonly stream: string;
  /** The same for every attempt at the same rows: for destinations that recognise by it what they have had already. */
  readonly id: string;
  readonly table: TargetTable;
  readonly action: LoadAction;
  readonly data: LoadData;
  /** ISO 8601, UTC, to the millisecond. */
  readonly deliveredAt: string;
  /** The watermark as it was read; undefined where there is none. It must still be so when the load is committed. */
  readonly before: Watermark | undefined;
  /** The watermark that is committed with the rows. */
  readonly after: Watermark;
  /** Aborts when the run is stopped: the load is then to be rolled back, and to reject soon. */
  readonly signal: AbortSignal;
}

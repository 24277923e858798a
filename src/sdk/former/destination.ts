import type { ColumnType } from '../column-type.js';
import type { DestinationContext, OptionShape, WatermarkConnector } from '../destination.js';
import type { Load, SchemaChange, TableColumn, TableDescription, TargetTable } from './load.js';
import type { Watermark } from './watermark.js';

export type { DestinationContext } from '../destination.js';

/**
 * A connector of tables that keeps a watermark beside them, not yet a record of what each table was given. Its deliveries judge a table
 * by its look.
 */
export interface TableConnector<S extends OptionShape = OptionShape> extends WatermarkConnector<S> {
  open(context: DestinationContext<S>): Promise<TableDestination>;
}

/** Declares such a connector, and types its options. */
export function tableConnector<S extends OptionShape>(
  connector: Omit<TableConnector<S>, 'kind' | 'keepsWatermarks'>,
): TableConnector<S> {
  return { kind: 'tables', keepsWatermarks: true, ...connector };
}

/**
 * An open destination of tables. Calls come one at a time, in this order:
 *
 * ```
 * watermarks → (describe → prepare*  → load → count?/checksum?)* → close
 * ```
 *
 * After a call has thrown, only `close` is called. `close` is always called exactly once, and must not throw if the
 * connection is gone. After an error of kind `retryable` the delivery opens a new destination and begins the load again, so
 * everything but a committed `load` must be repeatable. If it is unknown whether a `load` was committed, the delivery reads
 * `watermarks` again to find out.
 */
export interface TableDestination {
  /** The types of the place that was opened, for a connector that reaches databases of several kinds. Default: the connector's. */
  readonly types?: Pick<TableConnector, 'mapColumn' | 'widens'>;
  /**
   * All watermarks at this place, also those of other destinations. Creates the table of watermarks if it is missing.
   * @param table the table to be loaded. A connector that keeps watermarks inside their tables may leave out those of other tables
   */
  watermarks(table?: string): Promise<readonly Watermark[]>;
  /** The table of this name; undefined if there is none. */
  describe(table: string): Promise<TableDescription | undefined>;
  /** Creates or changes a table. Removes nothing; idempotent. */
  prepare(table: TargetTable, change: SchemaChange): Promise<void>;
  /** Whether no row of the table has a value in this column. */
  isColumnEmpty(table: string, column: string): Promise<boolean>;
  /**
   * Loads rows into the table. With transactions, one transaction does it all: it fills a staging table (or the table itself,
   * for `append`), compares the number of rows that arrived with {@link LoadData.handedOver}, then writes the rows and the
   * watermark. It moves the watermark only if that still is {@link Load.before}; otherwise it rolls everything back.
   *
   * Without transactions: a load may be cut short anywhere, and is then repeated with the same {@link Load.id} and the same
   * rows. It must come to the same result, and moves the watermark last.
   * @throws {CdsyncError} `watermark_moved`, `count_differs`, and see `errors.ts`
   */
  load(load: Load): Promise<void>;
  /** The number of rows of the table; with `live`, only those whose `_deleted_at` is NULL. */
  count(table: string, live: boolean): Promise<number>;
  /**
   * For each column, the number of its values and a sum over them. Each value adds the first 8 hex digits, as a number, of the
   * MD5 of its text: integers as digits, booleans as `true` or `false`, dates as ISO 8601, timestamps as microseconds since
   * 1970, texts themselves. Columns of other types have no sum. With `live`, only rows whose `_deleted_at` is NULL count.
   * Leave it out if the destination cannot do it: `verify: checksum` is then refused.
   */
  checksum?(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>>;
  close(): Promise<void>;
}

/** A column of the destination, with the type that it has in the stream. */
export interface ChecksumColumn extends TableColumn {
  readonly of: ColumnType;
}

/** The number of values in one column, and their sum: as text, because it may exceed 2^53. */
export interface ColumnSum {
  readonly values: number;
  readonly sum: string | undefined;
}

import type { ChecksumColumn, ColumnSum, Load } from '../../src/sdk/index.js';
import type { Marker } from './marker.js';
import type { LoadedTable } from './table-metadata.js';

/** A load whose rows lie in local Parquet files. */
export interface StagedLoad {
  readonly load: Pick<Load, 'stream' | 'table' | 'action' | 'deliveredAt' | 'signal'>;
  /**
   * The rows, with the columns of {@link columns} in this order; in a merge, `_op` comes first. JSON is text, a timestamp has
   * microseconds and is UTC. They lie in a private folder until the load is over.
   */
  readonly files: readonly string[];
  readonly rows: number;
  /** Names of the columns of the files. */
  readonly columns: readonly string[];
  /** Names of the columns to sort new files by. */
  readonly sort: readonly string[];
  /** The table as the load found it. The commit must fail if the table's snapshot is another by then. */
  readonly base: LoadedTable;
  /** To be committed with the rows. */
  readonly marker: Marker;
}

/** Who reads and writes the rows of tables. The connector itself makes tables, columns and properties, by the catalog's protocol. */
export interface LoadEngine {
  /**
   * Carries out the action, and commits its rows with the marker: one commit with all, or none. It may be called again with the same
   * files and another base.
   * @throws {CommitConflict} if the table has changed since `base`: nothing of the load is kept
   */
  load(task: StagedLoad): Promise<void>;
  /** Whether the table has no rows. */
  isEmpty(table: string): Promise<boolean>;
  /** Whether no row of the table has a value in this column. */
  isColumnEmpty(table: string, column: string): Promise<boolean>;
  /** As {@link TableDestination.count}. */
  count(table: string, live: boolean): Promise<number>;
  /** As {@link TableDestination.checksum}. */
  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>>;
  /** Must not throw. */
  close(): Promise<void>;
}

/** The catalog has refused a commit because the table has changed since it was read. */
export class CommitConflict extends Error {}

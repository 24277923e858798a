import type { ColumnRules } from '../../rows/column-rules.js';
import type { StoredColumn } from '../../rows/columns.js';
import type { PartFiles, PartRecord } from '../../rows/part.js';
import type { ParquetCompression } from '../../store/parquet.js';

/** Records that were scanned and spooled, and are ready to become a part. */
export interface SealedBatch {
  /** The JSON array of them. */
  readonly spool: string;
  readonly records: number;
  /** The longest record's bytes. */
  readonly maxRecordBytes: number;
  /** As they stood when the batch was sealed: every value in it fits them. */
  readonly columns: readonly StoredColumn[];
  readonly rules: ColumnRules;
  /** Columns that make the key. */
  readonly key: readonly string[];
  /** Number of the part, which orders copies of one key. */
  readonly number: number;
  /** Where the part is to be. */
  readonly files: PartFiles;
  readonly compression: ParquetCompression;
}

/** What a batch has become, and the columns that its part really has. */
export type MadePart = Pick<PartRecord, 'rows' | 'bytes' | 'sha256' | 'columns'> & {
  /** Of the keys file, SHA-256. */
  readonly keys_sha256: string;
};

/** Turns batches into parts. */
export interface PartMaker {
  /**
   * Makes the part with a row for each record, in their order, and its keys; both are durable on return. Batches may be
   * under way side by side. A batch that failed may be made again.
   * @throws {CdsyncError} `conversion_failed`, `disk_full`
   */
  make(batch: SealedBatch): Promise<MadePart>;
}

import type { ColumnRules } from '../../columns/column-rules.js';
import type { StoredColumn } from '../../columns/columns.js';
import type { ParquetCompression } from '../../storage/parquet.js';
import type { PartFiles, PartRecord } from '../../storage/part.js';

/** Scanned and spooled records that are ready to become a part. */
export interface SealedBatch {
  /** Path of the file with the JSON array of the records. */
  readonly spool: string;
  readonly records: number;
  /** Size of the longest record, or more. */
  readonly maxRecordBytes: number;
  /** The columns when the batch was sealed; every value in the batch fits them. */
  readonly columns: readonly StoredColumn[];
  readonly rules: ColumnRules;
  /** Columns that make the key. */
  readonly key: readonly string[];
  /** Number of the part, which orders copies of one key. */
  readonly number: number;
  /** Where to write the part. */
  readonly files: PartFiles;
  readonly compression: ParquetCompression;
  /** The hash of each record's bytes, four words each; left out: the records shall not be recognised. */
  readonly raw?: Uint32Array | undefined;
}

/** A finished part, with the columns that it really has. */
export type ConvertedPart = Pick<PartRecord, 'rows' | 'bytes' | 'sha256' | 'hash_version' | 'columns'> & {
  /** SHA-256 of the keys file. */
  readonly keys_sha256: string;
};

/** Turns batches into parts. */
export interface PartConverter {
  /**
   * Makes the part with a row for each record, in their order, and its keys; both are durable on return. Several batches
   * may be under way at once. A failed batch may be made again.
   * @throws {CdsyncError} `conversion_failed`, `disk_full`
   */
  make(batch: SealedBatch): Promise<ConvertedPart>;
}

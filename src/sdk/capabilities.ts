/**
 * What becomes of a stream in a destination:
 * - `append`: every change is one more row, with `_op`, `_run_id` and `_synced_at`; nothing is ever changed or deleted.
 * - `upsert`: one row a key, its newest image; what is deleted at the source stays.
 * - `mirror`: one row a key, deletes included.
 * - `replace`: all rows are exchanged at once whenever anything has changed; readers never see half of it.
 */
export type Mode = 'append' | 'upsert' | 'mirror' | 'replace';

/** Files that DuckDB writes for a bulk loader. */
export type FileFormat = 'csv' | 'parquet' | 'jsonl';

/** How CSV files are written. Strings that equal `null` are in quotes, so that text and NULL stay apart. */
export interface CsvDialect {
  /** What stands for NULL, without quotes. Default: nothing. */
  readonly null?: string;
  /** Default: a comma. */
  readonly delimiter?: string;
  /** Default: `"`, doubled inside. */
  readonly quote?: string;
  /** What stands before a quote inside quotes. Default: the quote itself. */
  readonly escape?: string;
  /** A first line of column names. Default: false. */
  readonly header?: boolean;
}

/** Which names of tables and columns a destination takes. Names that break a rule are replaced, the same way each time. */
export interface IdentifierRules {
  /** Default: 63 bytes of UTF-8, beyond which a name is cut and gets 8 digits of its hash. */
  readonly maxBytes?: number;
  /** Names that differ only in case are one: default true. */
  readonly ignoresCase?: boolean;
  /** One character that is allowed; others become `_`, and the name gets 6 digits of its hash. Default: any but NUL. */
  readonly allowed?: RegExp;
  /** How a name must begin; in front of another comes `_`, and it gets 6 digits of its hash. Default: with anything. */
  readonly begins?: RegExp;
  /** What a name may not be, in lower case; such a name gets 6 digits of its hash. Default: none. */
  readonly reserved?: readonly string[];
}

/** What a table destination can do. What is left out has the default named with it. */
export interface TableCapabilities {
  /**
   * A load's rows and its watermark are committed together, or neither. Default: true. Where it is false, a load must be one
   * that can be done twice, and moves the watermark after everything else.
   */
  readonly transactions?: boolean;
  /** Default: all four. */
  readonly modes?: readonly Mode[];
  /** Whether deleted rows go, or stay with `_deleted_at`. Default: both, as the job says. */
  readonly deletes?: readonly ('hard' | 'soft')[];
  /** Files that {@link LoadData.files} is asked for; none: the connector reads {@link LoadData.batches}. Default: none. */
  readonly format?: FileFormat;
  readonly csv?: CsvDialect;
  /** Bytes of UTF-8 that a text in a key may have: rows beyond are refused before they are sent. Default: no limit. */
  readonly keyBytes?: number;
  readonly identifiers?: IdentifierRules;
  /** Streams that one destination loads at once, each on an open destination of its own. Default: 1. */
  readonly streamsAtOnce?: number;
}

/** What a record destination can do. */
export interface RecordCapabilities {
  /** Default: append, upsert and mirror; `replace` makes no sense of records. */
  readonly modes?: readonly Exclude<Mode, 'replace'>[];
  /** Records handed to one {@link RecordDestination.send}. Default: 1. */
  readonly batchRecords?: number;
  /** Bytes of JSON in one batch at most; a single record that is larger is refused. Default: no limit. */
  readonly batchBytes?: number;
  /** Batches under way at once. Default: 1. */
  readonly batchesAtOnce?: number;
}

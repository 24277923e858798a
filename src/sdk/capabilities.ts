/**
 * How a destination stores a stream:
 * - `append`: every change is one more row, with `_op`, `_run_id` and `_synced_at`; nothing is ever changed or deleted.
 * - `upsert`: one row a key, its newest image; records that the source deletes stay.
 * - `mirror`: one row a key; a delete at the source is carried out too.
 * - `replace`: whenever anything has changed, all rows are replaced at once; readers never see half of them.
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

/** Which names of tables and columns a destination accepts. A name that breaks a rule is replaced, always in the same way. */
export interface IdentifierRules {
  /** Default: 63 bytes of UTF-8, beyond which a name is cut and gets 8 digits of its hash. */
  readonly maxBytes?: number;
  /** Names that differ only in case are one: default true. */
  readonly ignoresCase?: boolean;
  /** Names are stored in small letters, however they are written. Default: false. */
  readonly inSmallLetters?: boolean;
  /** The form in which the destination compares names, if it ignores case. Default: in lower case. */
  readonly fold?: (name: string) => string;
  /** One character that is allowed; others become `_`, and the name gets 6 digits of its hash. Default: any but NUL. */
  readonly allowed?: RegExp;
  /** How a name must begin; any other name is prefixed with `_` and gets 6 digits of its hash. Default: with anything. */
  readonly begins?: RegExp;
  /** How a name must end; any other name gets 6 digits of its hash. Default: with anything. */
  readonly ends?: RegExp;
  /** Forbidden names, in lower case; such a name gets 6 digits of its hash. Default: none. */
  readonly reserved?: readonly string[];
}

/** What a table destination can do. Each member that is left out has the default stated with it. */
export interface TableCapabilities {
  /**
   * A load's rows and its record are committed together, or neither. Default: true. If false, a load must be safe to
   * repeat, and writes the record last.
   */
  readonly transactions?: boolean;
  /** Default: all four. */
  readonly modes?: readonly Mode[];
  /** Whether deleted rows are removed (`hard`), or stay with `_deleted_at` (`soft`). Default: both, as the job says. */
  readonly deletes?: readonly ('hard' | 'soft')[];
  /** The format of {@link LoadData.files}. Default: none; the connector reads {@link LoadData.batches}. */
  readonly format?: FileFormat;
  readonly csv?: CsvDialect;
  /** Most bytes of UTF-8 in the texts of a key together; rows with more are refused before they are sent. Default: no limit. */
  readonly keyBytes?: number;
  readonly identifiers?: IdentifierRules;
  /** Most columns of a table; those of a stream beyond them are left out, and listed. Default: no limit. */
  readonly maxColumns?: number;
  /** Streams that are loaded at the same time, each through its own open destination. Default: 1. */
  readonly streamsAtOnce?: number;
}

/** What a record destination can do. */
export interface RecordCapabilities {
  /** Default: append, upsert and mirror; `replace` makes no sense for records. */
  readonly modes?: readonly Exclude<Mode, 'replace'>[];
  /** Most records for one {@link RecordDestination.send}. Default: 1. */
  readonly batchRecords?: number;
  /** Most bytes of JSON in one batch; a single record that is larger is refused. Default: no limit. */
  readonly batchBytes?: number;
  /** Most batches under way at the same time. Default: 1. */
  readonly batchesAtOnce?: number;
}

import type { z } from '../core/zod.js';
import type { ColumnType, StreamColumn } from './column-type.js';
import type { FileFacts, FilePart, FilePlace, FilePolicy, FileTask, Made } from './file-destination.js';
import type { IdentifierRules } from './identifier-rules.js';
import type { ColumnMapping, FoundTable, Load, StateKey, StateRow, TableState, TargetColumn } from './load.js';
import type { Camel, OptionInfo, OptionProblem } from './option.js';
import type { PlannedRequests } from './planned-requests.js';
import type { Digest } from './sql/row-sum.js';

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

/** The abilities of a table destination. Each member that is left out has the default stated with it. */
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
  /** The format of {@link LoadData.files}. Default: Parquet. CSV has commas, quotes that are doubled inside of quotes, and no header. */
  readonly format?: FileFormat;
  /** The word for NULL in CSV, without quotes: a text that equals it is in quotes. Default: nothing. */
  readonly csvNull?: string;
  /** Most bytes of UTF-8 in the texts of a key together; rows with more are refused before they are sent. Default: no limit. */
  readonly keyBytes?: number;
  readonly identifiers?: IdentifierRules;
  /** Most columns of a table; those of a stream beyond them are left out, and listed. Default: no limit. */
  readonly maxColumns?: number;
  /** How many streams are delivered in parallel, each in a session: they stage rows in parallel, and commit by {@link Load.inTurn}. Default: 1. */
  readonly sessions?: number;
}

/** The abilities of a record destination. */
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

/** Options of a connector by their YAML keys: snake_case, each declared with `option` or a helper such as `text`. */
export type OptionShape = Readonly<Record<string, z.ZodType>>;

/** The same as code sees them: camelCase, checked, defaults filled in. */
export type OptionValues<S extends OptionShape> = Camel<z.output<z.ZodObject<S>>>;

/** Access to the service that the profiles come from, for connectors that send to it. */
export interface ServiceAccess {
  /**
   * Sends one event (specification, section 6), within the service's budget, with the client's retries.
   * @param event the text of a JSON object
   * @returns once the service has accepted it
   * @throws {CdsyncError} of kind `retryable` if the service is unavailable; of kind `auth`; with code `event_refused` if the
   * service refuses this event and would refuse it again
   */
  sendEvent(streamId: string, event: string, signal: AbortSignal): Promise<void>;
}

/** The context that {@link TableConnector.open} and {@link RecordConnector.open} get. */
export interface DestinationContext<S extends OptionShape = OptionShape> {
  /** The destination's name in the configuration: the first column of `_cdsync_state`. */
  readonly destination: string;
  readonly job: string;
  readonly options: OptionValues<S>;
  /** A private folder that is removed when the delivery ends. */
  readonly folder: string;
  /** A private folder that is kept from delivery to delivery. A connector that uses it makes it. */
  readonly keptFolder: string;
  readonly service: ServiceAccess;
  /** The memory in MB for a DuckDB of the connector's own: it has an option `memory_mb`, and that is not set. */
  readonly memoryMb?: number | undefined;
  /** Threads for a DuckDB of the connector's own: `resources.threads`. Default: 2. */
  readonly threads?: number | undefined;
  /** If rows are large: how many a DuckDB of the connector's own may work on together. See {@link DuckdbSession.expectLargeRows}. */
  readonly rowsTogether?: number | undefined;
  /** Only `state` and `describe` follow, and nothing may be made: neither a file nor a table. Default: false. */
  readonly isReadOnly?: boolean;
  readonly signal: AbortSignal;
  /** Shows the user a line. It must hold no values of records. */
  readonly notice: (line: string) => void;
}

/** A stream of the job, as {@link ConnectorBase.checkStreams} sees it before anything is read. */
export interface JobStream {
  readonly name: string;
  readonly source: string;
  /** The profile collection that it reads, if it reads one. */
  readonly collection?: string | undefined;
}

/** The columns of a stream's records, as the destination gets them. */
export interface StreamColumns {
  readonly name: string;
  readonly columns: readonly string[];
}

/** A right or a setting that a load needs, and how to get it. */
export interface MissingRight {
  readonly message: string;
  readonly hint?: string | undefined;
}

/** What {@link ConnectorBase.check} found. */
export interface DestinationCheck {
  /** The place that it reached, in a few words: `PostgreSQL 17.2, schema cdp`. */
  readonly reached: string;
  readonly lacks: readonly MissingRight[];
  /** The part that only a load can test, as a short sentence. */
  readonly untried?: string | undefined;
}

interface ConnectorBase<S extends OptionShape> {
  /** As `connector:` names it. */
  readonly name: string;
  /** The purpose of the connector, in one sentence. */
  readonly summary: string;
  readonly options: S;
  /**
   * Where an erased row may still be after the next delivery, and what to do about it: one clause, which `cdsync forget` shows. Left
   * out: nowhere.
   */
  readonly erasure?: string;
  /** Rules between the options; `forms` and `check` as in {@link OptionInfo}. */
  readonly optionRules?: Pick<OptionInfo, 'forms' | 'check'>;
  /** Rules between the options and all streams of the job, also those that do not go to the destination. */
  checkStreams?(options: OptionValues<S>, streams: readonly JobStream[]): readonly OptionProblem[];
  /** Faults of the options for a stream with these columns: templates that name others. Looked for before anything is sent. */
  checkColumns?(options: OptionValues<S>, stream: StreamColumns): readonly OptionProblem[];
  /** Reads files that the options name, such as keys, with the configuration. @throws {CdsyncError} `key_file_invalid` */
  checkFiles?(options: OptionValues<S>): Promise<void>;
  /** Whether it uses {@link DestinationContext.service}. Default: false. */
  readonly usesService?: boolean;
  /**
   * Connects and logs in as a load does, looks for everything that a load of these tables needs, and writes nothing. Default: it
   * opens the destination with {@link DestinationContext.isReadOnly}, describes each table, and closes it; write your own to look for
   * permissions too.
   * @param tables where streams go; empty for connectors of records
   * @throws {CdsyncError} as {@link TableConnector.open} does
   */
  check?(context: DestinationContext<S>, tables: readonly string[]): Promise<DestinationCheck>;
  /**
   * Where tables go, as text without any secret. Two destinations with the same text would write the same tables; one
   * configuration file with two such destinations is refused. Left out: nothing is refused.
   */
  place?(options: OptionValues<S>): string;
  /**
   * Files that one process at a time may have open to write: a configuration in which two destinations have the same one is refused,
   * whatever their connectors and tables are. Left out: there are none.
   */
  files?(options: OptionValues<S>): readonly string[];
}

/**
 * A destination that keeps tables (or files in their place), and a record of each beside it.
 *
 * Importing the module of a connector must do nothing and load no vendor's library; {@link open} does that.
 */
export interface TableConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'tables';
  readonly capabilities: TableCapabilities;
  /** The destination's type for a column. It must handle every kind of {@link ColumnType}. */
  mapColumn(type: ColumnType, column: StreamColumn): ColumnMapping;
  /**
   * Whether a column that was declared with one type holds every value of another, exactly. Default: what holds everywhere, such as
   * numbers in a column of texts.
   */
  holds?(declared: ColumnType, current: ColumnType): boolean;
  /**
   * Whether a column of a table that is taken over has the type of {@link mapColumn}, as `describe` spells it. Default: if the two are
   * spelled alike.
   */
  isTypeOf?(actual: string, mapped: string): boolean;
  /**
   * Whether DDL changes a column of one type to the other without losing or changing a value. Asked for integers and doubles only if
   * the column never had an integer beyond 2^53. Default: never.
   */
  widens?(declared: ColumnType, current: ColumnType): boolean;
  /**
   * Connects. Called for each stream, and again after a failure.
   * @throws {CdsyncError} see `errors.ts`: of kind `auth`, `retryable` or `fatal`
   */
  open(context: DestinationContext<S>): Promise<TableDestination>;
}

/** The rules of a place about types. */
export type TableTypes = Pick<TableConnector, 'mapColumn' | 'holds' | 'widens' | 'isTypeOf'>;

/**
 * An open destination of tables. Calls come one at a time, in this order:
 *
 * ```
 * state → describe → (removeLeft → keep → state → describe)? → load? → removeLeft? → sums? → keep? → close
 * ```
 *
 * After a call has thrown, only `close` is called. `close` is always called exactly once, and must not throw if the
 * connection is gone. After an error of kind `retryable` the delivery opens a new destination and begins again, so everything but a
 * committed `load` must be repeatable. If it is unknown whether a `load` was committed, the delivery finds out from `state`.
 */
export interface TableDestination {
  /** The types of the place that was opened, for a connector that reaches databases of several kinds. Default: the connector's. */
  readonly types?: TableTypes;
  /** Reads `_cdsync_state`. Writes nothing: the table need not exist yet. */
  state(key: StateKey): Promise<TableState>;
  /**
   * Names of the columns that loads have added to the table of a record, as `_cdsync_loads` has them. Asked for if the table is not the
   * one that its record speaks of. Default: none.
   */
  addedColumns?(key: StateKey): Promise<readonly string[]>;
  /** The table of this name; undefined if there is none. */
  describe(table: string): Promise<FoundTable | undefined>;
  /**
   * Writes rows and record. With transactions, one transaction does it all but the DDL before it, and the staging: it deletes erased
   * keys, writes the rows, clears columns, lets {@link ReadBack.check} look at the result, stamps the table, and replaces the record
   * if its row still has the version of {@link Load.before}; else it rolls back. If others have changed the number of rows,
   * it rolls back with `table_moved`.
   *
   * Without transactions each step is repeatable: the intent first, the record last.
   * @throws {CdsyncError} `fenced`, `count_differs`, `delivery_differs`, `table_moved`, and see `errors.ts`
   */
  load(load: Load): Promise<void>;
  /**
   * The number of rows, and the sums of {@link rowNumber} over them, as after a load: a look at the whole table. With `live`, only
   * rows whose `_deleted_at` is NULL count.
   */
  sums(table: string, columns: readonly TargetColumn[], live: boolean): Promise<TableSums>;
  /**
   * For checks: calls each function of the server that a load rests on, once, and writes nothing. Left out: loads rest on none of a server.
   * @throws {CdsyncError} if one is missing, or may not be called
   */
  tryFunctions?(types: Pick<TableTypes, 'mapColumn'>): Promise<void>;
  /** Replaces a record without touching the table. @throws {CdsyncError} `fenced` */
  replaceRecord(before: StateRow, record: string): Promise<void>;
  /**
   * Removes leftovers of loads beside a table, such as older files and tables of staged rows, because they may hold values that are
   * gone from the table. Called after a load that {@link LoadOutcome.owes}; until it has succeeded, by each delivery before anything else,
   * also by one with nothing to do. It may find nothing. Left out: loads leave nothing.
   */
  removeLeft?(key: StateKey): Promise<void>;
  close(): Promise<void>;
}

/** The rows of a table, in figures. */
export interface TableSums {
  readonly rows: number;
  readonly sum: string;
  /** Names of the columns whose texts are in the sum. */
  readonly hashed: readonly string[];
  /** The hash of the rows. Default: `md5`. */
  readonly digest?: Digest | undefined;
  /** The sum for each column alone. */
  sums(): Promise<ReadonlyMap<string, string>>;
}

/**
 * A destination that takes records but stores nothing of cdsync's own. The delivery itself keeps track of each acknowledged record, so
 * that each record arrives at least once, always with the same id.
 */
export interface RecordConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'records';
  readonly capabilities: RecordCapabilities;
  /** The columns that records need; the others are not even stored. Default: all. */
  usedColumns?(options: OptionValues<S>): readonly string[] | undefined;
  /** As {@link TableConnector.open}. */
  open(context: DestinationContext<S>): Promise<RecordDestination>;
  /**
   * The requests that a delivery would send, for `push --dry-run`. It connects to nothing and writes nothing.
   * @param rows how many records there are of each kind
   * @param first the first records; empty unless values may be shown
   */
  planRequests?(
    context: DestinationContext<S>,
    rows: Readonly<Record<OutgoingRecord['op'], number>>,
    first: readonly OutgoingRecord[],
  ): Promise<PlannedRequests>;
}

/** A change on its way to a record destination. */
export interface OutgoingRecord {
  /** 32 hex digits; the same each time that this change is sent. */
  readonly id: string;
  readonly stream: string;
  readonly op: 'insert' | 'update' | 'delete';
  /** The key: the key column's value as text, or a JSON list of texts where several columns make the key. */
  readonly key: string;
  /**
   * The record after the change; for a delete, the record before it. The text of a JSON object, with members in column order
   * and numbers digit for digit.
   */
  readonly json: string;
  /** When the run that found the change began: ISO 8601, UTC. */
  readonly syncedAt: string;
  /** Whether it is the delete of a person who was erased: the record may have the key alone. */
  readonly isErasure?: boolean | undefined;
}

/** The outcome for one record of a batch. */
export type RecordResult =
  | { readonly type: 'acknowledged' }
  /**
   * It would be refused again. It is kept as a reject, and the next delivery sends the record as it then is.
   * `mayPassLast`: it is sent once more after all others, which may free the values that it needs. `isUnsent`: the connector could not make a
   * request of it.
   */
  | {
      readonly type: 'refused';
      readonly reason: string;
      readonly column?: string | undefined;
      readonly mayPassLast?: boolean | undefined;
      readonly isUnsent?: boolean | undefined;
    }
  /**
   * It is sent again, after `afterMs` milliseconds or later; with `isForAll` the destination asks to wait with all records. `isTried`:
   * it was tried for as long as the destination may be away.
   */
  | {
      readonly type: 'again';
      readonly reason: string;
      readonly afterMs?: number | undefined;
      readonly isForAll?: boolean | undefined;
      readonly isTried?: boolean | undefined;
    };

/** An open destination of records. */
export interface RecordDestination {
  /** Where its options decide about batches. Default: those that the connector declares. */
  readonly capabilities?: RecordCapabilities;
  /**
   * Sends a batch, and resolves once the outcome of each record is known, in the order of the batch. Called for several
   * batches at once if the connector declares `batchesAtOnce`; no key is in two of them. An error that it throws concerns the
   * whole batch: after kind `retryable` the batch is sent again.
   */
  send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]>;
  close(): Promise<void>;
}

/** A destination of whole files, which another program takes away. The storage folder has a note of each file. */
export interface FileConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'files';
  readonly capabilities: Readonly<Record<string, never>>;
  policy(options: OptionValues<S>): FilePolicy;
  /**
   * Names of a stream's files, and of those beside them, whose other placeholders have some value, always the same.
   * @throws {CdsyncError} for names that no place takes, or that are not distinct
   */
  sampleNames(options: OptionValues<S>, of: { readonly job: string; readonly stream: string }): readonly string[];
  /** The name of a file, before it is made. @throws {CdsyncError} for a name that no place takes */
  fileName(options: OptionValues<S>, properties: FileFacts, of: FilePart): string;
  /** Makes the files of some rows; more than one if they are split. */
  make(options: OptionValues<S>, task: FileTask): Promise<Made>;
  open(context: DestinationContext<S>): Promise<FilePlace>;
}

/** The default export of a connector's module. */
// biome-ignore lint/suspicious/noExplicitAny: each connector takes only its own options, so no one option shape fits all.
export type Connector = TableConnector<any> | RecordConnector<any> | FileConnector<any>;

/** Declares a connector of tables, and types its options. */
export function tableConnector<S extends OptionShape>(connector: Omit<TableConnector<S>, 'kind'>): TableConnector<S> {
  return { kind: 'tables', ...connector };
}

/** Declares a connector of records, and types its options. */
export function recordConnector<S extends OptionShape>(
  connector: Omit<RecordConnector<S>, 'kind'>,
): RecordConnector<S> {
  return { kind: 'records', ...connector };
}

/** Declares a connector of files, and types its options. */
export function fileConnector<S extends OptionShape>(
  connector: Omit<FileConnector<S>, 'kind' | 'capabilities'>,
): FileConnector<S> {
  return { kind: 'files', capabilities: {}, ...connector };
}

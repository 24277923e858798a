import type { z } from 'zod';
import type { RecordCapabilities, TableCapabilities } from './capabilities.js';
import type { ColumnType, StreamColumn } from './column-type.js';
import type { ColumnMapping, Load, SchemaChange, TableColumn, TableDescription, TargetTable } from './load.js';
import type { Camel, Finding, OptionFacts } from './option.js';
import type { Watermark } from './watermark.js';

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

/** What {@link TableConnector.open} and {@link RecordConnector.open} get. */
export interface DestinationContext<S extends OptionShape = OptionShape> {
  /** The destination's name in the configuration: the first column of {@link watermarkTable}. */
  readonly destination: string;
  readonly job: string;
  readonly options: OptionValues<S>;
  /** A private folder that is removed when the delivery ends. */
  readonly folder: string;
  readonly service: ServiceAccess;
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

/** What a destination lacks for a load, and what to do about it. */
export interface Lack {
  readonly message: string;
  readonly hint?: string | undefined;
}

/** What {@link ConnectorBase.check} found. */
export interface DestinationCheck {
  /** Where it came to, in a few words: `PostgreSQL 17.2, schema cdp`. */
  readonly reached: string;
  readonly lacks: readonly Lack[];
  /** What only a load can show, as a short sentence. */
  readonly untried?: string | undefined;
}

interface ConnectorBase<S extends OptionShape> {
  /** As `connector:` names it. */
  readonly name: string;
  /** What the connector does, in one sentence. */
  readonly summary: string;
  readonly options: S;
  /** Rules between the options; `forms` and `check` as in {@link OptionFacts}. */
  readonly optionRules?: Pick<OptionFacts, 'forms' | 'check'>;
  /** Rules between the options and all streams of the job, also those that do not go to the destination. */
  checkStreams?(options: OptionValues<S>, streams: readonly JobStream[]): readonly Finding[];
  /** Whether it uses {@link DestinationContext.service}. Default: false. */
  readonly usesService?: boolean;
  /**
   * Connects and logs in as a load does, looks for everything that a load of these tables needs, and writes nothing. Default: it
   * opens the destination, describes each table, and closes it; write your own if opening writes something, or to look for
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
}

/**
 * A destination that keeps tables (or files that stand for them), and its watermarks beside them.
 *
 * Importing the module of a connector must do nothing and load no vendor's library; {@link open} does that.
 */
export interface TableConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'tables';
  readonly capabilities: TableCapabilities;
  /** The destination's type for a column. It must handle every kind of {@link ColumnType}. */
  mapColumn(type: ColumnType, column: StreamColumn): ColumnMapping;
  /** Whether a column's type can be changed from one to the other without losing or changing a value. Default: never. */
  widens?(from: string, to: string): boolean;
  /**
   * Connects. May be called several times for one destination: for several streams at once, and again after a failure.
   * @throws {CdsyncError} see `errors.ts`: of kind `auth`, `retryable` or `fatal`
   */
  open(context: DestinationContext<S>): Promise<TableDestination>;
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

/**
 * A destination that takes records but stores no watermark. The delivery itself keeps track of each acknowledged record, so
 * that each record arrives at least once, always with the same id.
 */
export interface RecordConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'records';
  readonly capabilities: RecordCapabilities;
  /** As {@link TableConnector.open}. */
  open(context: DestinationContext<S>): Promise<RecordDestination>;
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
}

/** The outcome for one record of a batch. */
export type RecordResult =
  | { readonly type: 'acknowledged' }
  /** It would be refused again. It is kept as a reject, and the next delivery sends the record as it then is. */
  | { readonly type: 'refused'; readonly reason: string; readonly column?: string | undefined }
  /** It is sent again, after `afterMs` milliseconds or later. */
  | { readonly type: 'again'; readonly reason: string; readonly afterMs?: number | undefined };

/** An open destination of records. */
export interface RecordDestination {
  /**
   * Sends a batch, and resolves once the outcome of each record is known, in the order of the batch. Called for several
   * batches at once if the connector declares `batchesAtOnce`; no key is in two of them. An error that it throws concerns the
   * whole batch: after kind `retryable` the batch is sent again.
   */
  send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]>;
  close(): Promise<void>;
}

/** The default export of a connector's module. */
// biome-ignore lint/suspicious/noExplicitAny: each connector takes only its own options, so no one option shape fits all.
export type Connector = TableConnector<any> | RecordConnector<any>;

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

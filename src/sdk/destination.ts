import type { z } from 'zod';
import type { RecordCapabilities, TableCapabilities } from './capabilities.js';
import type { ColumnType, StreamColumn } from './column-type.js';
import type { ColumnMapping, Load, SchemaChange, TableColumn, TableDescription, TargetTable } from './load.js';
import type { Camel, Finding, OptionFacts } from './option.js';
import type { Watermark } from './watermark.js';

/** Options of a connector by their YAML keys: snake_case, each declared with `option` or one of its kind. */
export type OptionShape = Readonly<Record<string, z.ZodType>>;

/** The same as code sees them: camelCase, checked, defaults filled in. */
export type OptionValues<S extends OptionShape> = Camel<z.output<z.ZodObject<S>>>;

/** What a connector may want of the service that the profiles come from. */
export interface ServiceAccess {
  /**
   * Sends one event (specification, section 6), within the service's budget and retried as its client does.
   * @param event the text of a JSON object
   * @returns once the service has accepted it
   * @throws {CdsyncError} of kind `retryable` where the service was not to be had, `auth`, or with code `event_refused` where it
   * refuses this event and would again
   */
  sendEvent(streamId: string, event: string, signal: AbortSignal): Promise<void>;
}

/** What a connector is opened with. */
export interface DestinationContext<S extends OptionShape = OptionShape> {
  /** The destination's name in the configuration: rows of {@link watermarkTable} begin with it. */
  readonly destination: string;
  readonly job: string;
  readonly options: OptionValues<S>;
  /** A private folder that goes with the delivery. */
  readonly folder: string;
  readonly service: ServiceAccess;
  readonly signal: AbortSignal;
  /** Tells a person something, once, without values of records. */
  readonly notice: (line: string) => void;
}

/** What a connector may know of a stream of its job before anything is read. */
export interface JobStream {
  readonly name: string;
  readonly source: string;
  /** The profile collection that it reads, where it reads one. */
  readonly collection?: string | undefined;
}

interface ConnectorBase<S extends OptionShape> {
  /** As `connector:` names it. */
  readonly name: string;
  /** What it loads, in one sentence. */
  readonly summary: string;
  readonly options: S;
  /** Rules between the options; `forms` and `check` as in {@link OptionFacts}. */
  readonly optionRules?: Pick<OptionFacts, 'forms' | 'check'>;
  /** Rules between the options and all streams of the job, whether they go to the destination or not. */
  checkStreams?(options: OptionValues<S>, streams: readonly JobStream[]): readonly Finding[];
  /** Whether it asks {@link DestinationContext.service} for anything. Default: false. */
  readonly usesService?: boolean;
  /**
   * Where tables go, without any secret, such that two destinations with the same text would write the same tables. Two
   * destinations of a file that do are refused. Left out: nothing is refused.
   */
  place?(options: OptionValues<S>): string;
}

/**
 * A destination that keeps tables (or files that stand for them), and its watermarks beside them.
 *
 * Importing the module of a connector must do nothing and load no vendor's library: that belongs into {@link open}.
 */
export interface TableConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'tables';
  readonly capabilities: TableCapabilities;
  /** The type for a column: a table over all kinds of {@link ColumnType}, without exception. */
  mapColumn(type: ColumnType, column: StreamColumn): ColumnMapping;
  /** Whether a column of one type can be made one of another without losing or changing a value. Default: never. */
  widens?(from: string, to: string): boolean;
  /**
   * Connects. May be called several times for one destination, for several streams at once, and again after a failure.
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
 * Whatever throws ends the use of this object but for `close`, which is always called, once, and must not throw for a
 * connection that is gone. Errors of kind `retryable` let the delivery open anew and begin the load again; so everything but
 * a committed `load` must be repeatable, and a `load` of whose commit nobody knows whether it succeeded is found out by
 * reading `watermarks` again.
 */
export interface TableDestination {
  /** All watermarks of the place, also those of other destinations. Makes the table of watermarks where it is missing. */
  watermarks(): Promise<readonly Watermark[]>;
  /** What is there under a table's name; undefined where nothing is. */
  describe(table: string): Promise<TableDescription | undefined>;
  /** Makes or changes a table. Adds only; idempotent. */
  prepare(table: TargetTable, change: SchemaChange): Promise<void>;
  /** Whether no row of the table has a value in this column. */
  isColumnEmpty(table: string, column: string): Promise<boolean>;
  /**
   * Brings rows into the table. In one transaction where the destination has such: into a staging table first (or straight, for
   * `append`), the count of what arrived compared with {@link LoadData.handedOver}, then the rows and the watermark together.
   * The watermark is moved only if it still is {@link Load.before}; otherwise everything is rolled back.
   *
   * Without transactions: a load may be cut short anywhere and done again with the same {@link Load.id} and the same rows,
   * and must then come to the same result; the watermark is moved after everything else.
   * @throws {CdsyncError} `watermark_moved`, `count_differs`, and see `errors.ts`
   */
  load(load: Load): Promise<void>;
  /** Rows of the table; with `live`, those only whose `_deleted_at` is NULL. */
  count(table: string, live: boolean): Promise<number>;
  /**
   * For each column the number of its values, and the sum over them of the first 8 hex digits, as a number, of the MD5 of the
   * value's text: integers in digits, `true` or `false`, dates as ISO 8601, timestamps as microseconds since 1970, texts
   * themselves; of columns of other types the sum is undefined. With `live`, of rows only whose `_deleted_at` is NULL.
   * Left out where the destination cannot: `verify: checksum` is then refused.
   */
  checksum?(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>>;
  close(): Promise<void>;
}

/** A column of the destination, and what it was made of. */
export interface ChecksumColumn extends TableColumn {
  readonly of: ColumnType;
}

/** Of one column: how many values, and their sum; as text, for it may exceed 2^53. */
export interface ColumnSum {
  readonly values: number;
  readonly sum: string | undefined;
}

/**
 * A destination that takes records and can store nothing: not even how far it has come. The delivery keeps that, per
 * acknowledged record, so that records come at least once, each with an id that stays the same.
 */
export interface RecordConnector<S extends OptionShape = OptionShape> extends ConnectorBase<S> {
  readonly kind: 'records';
  readonly capabilities: RecordCapabilities;
  /** As {@link TableConnector.open}. */
  open(context: DestinationContext<S>): Promise<RecordDestination>;
}

/** A change on its way to a record destination. */
export interface OutgoingRecord {
  /** The same each time that this change is sent: 32 hex digits. */
  readonly id: string;
  readonly stream: string;
  readonly op: 'insert' | 'update' | 'delete';
  /** The key: the key column's value as text, or a JSON list of texts where several columns make the key. */
  readonly key: string;
  /** The new image, of a delete the last one: the text of a JSON object, members in column order, numbers digit for digit. */
  readonly json: string;
  /** When the run began that brought the change: ISO 8601, UTC. */
  readonly syncedAt: string;
}

/** What became of one record of a batch. */
export type RecordResult =
  | { readonly type: 'acknowledged' }
  /** It would be refused again. It is kept as a reject, and its key's present image is sent with the next delivery. */
  | { readonly type: 'refused'; readonly reason: string; readonly column?: string | undefined }
  /** It is sent again, not before `afterMs`. */
  | { readonly type: 'again'; readonly reason: string; readonly afterMs?: number | undefined };

/** An open destination of records. */
export interface RecordDestination {
  /**
   * Sends a batch, and resolves once it is known of each record what became of it, in the order of the batch. Called for
   * several batches at once where the connector declares `batchesAtOnce`; no key is in two of them. What it throws concerns
   * the whole batch: kind `retryable` has it sent again.
   */
  send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]>;
  close(): Promise<void>;
}

/** What the module of a connector exports as its default. */
// biome-ignore lint/suspicious/noExplicitAny: a connector takes its own options only, so that no one type of shape holds all.
export type Connector = TableConnector<any> | RecordConnector<any>;

/** Declares a connector of tables: only gives its options their types. */
export function tableConnector<S extends OptionShape>(connector: Omit<TableConnector<S>, 'kind'>): TableConnector<S> {
  return { kind: 'tables', ...connector };
}

/** Declares a connector of records. */
export function recordConnector<S extends OptionShape>(
  connector: Omit<RecordConnector<S>, 'kind'>,
): RecordConnector<S> {
  return { kind: 'records', ...connector };
}

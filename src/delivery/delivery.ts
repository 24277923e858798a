import { join } from 'node:path';
import type { DestinationConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import type { DestinationReport } from '../core/run-report.js';
import type { SchemaChange } from '../core/schema-change.js';
import type { Connector, DestinationContext, ServiceAccess } from '../sdk/destination.js';
import type { Feed } from '../snapshot/feed.js';
import type { Session } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import type { DuckdbLimits } from '../storage/memory-plan.js';
import type { MemoryShares } from '../storage/memory-shares.js';
import { hideSecretsOf } from './connector-guard.js';

/** The context of every delivery of a job. */
export interface DeliveryContext {
  readonly layout: JobLayout;
  /** DuckDB resources for all destinations together. */
  readonly resources: DuckdbLimits;
  /** The job's memory, if several destinations are loaded at once. */
  readonly shares?: { readonly memory: MemoryShares; readonly destinations: number } | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly service: ServiceAccess;
  /** The longest wait that a receiver may ask for, in milliseconds. Default: 5 minutes. */
  readonly patienceMs?: number | undefined;
  /** Shows the user one line. */
  readonly notice: (line: string) => void;
  /** Gets each error of a delivery as it was thrown: a report has no causes. */
  readonly failed?: ((error: CdsyncError) => void) | undefined;
}

/** The order for the delivery to one destination. */
export interface DeliveryRequest {
  readonly destination: DestinationConfig;
  /** The streams to deliver. */
  readonly streams: readonly string[];
  /** Send everything, whatever the destination has. */
  readonly full: boolean;
  /** Take over tables that cdsync has not loaded, and start from a record of another store. */
  readonly adopt: boolean;
  /** Drop tables, and load them again. */
  readonly recreate: boolean;
  /** Compare whole tables with the snapshot. */
  readonly verify: boolean;
  /** How a new storage folder deals with tables that have rows of an older one. */
  readonly newStorage?: 'hold' | 'warn';
  /** With `full`: the old name of a file that is written again. */
  readonly file?: string | undefined;
}

/** The context with which a destination is opened. */
export function destinationContext(
  { layout, service, signal, notice }: Pick<DeliveryContext, 'layout' | 'service' | 'signal' | 'notice'>,
  { name, options }: Pick<DestinationConfig, 'name' | 'options'>,
  folder: string,
  rows: Pick<DestinationContext, 'memoryMb' | 'rowsTogether' | 'threads'> = {},
): DestinationContext {
  const hide = hideSecretsOf(options);
  return {
    destination: name,
    job: layout.job,
    options: options as DestinationContext['options'],
    folder,
    keptFolder: join(layout.delivery(name), 'kept'),
    service,
    ...rows,
    signal,
    notice: (line) => notice(`destination ${name}: ${hide(line)}`),
  };
}

/** The delivery of one stream to one destination. */
export interface StreamTask<C extends Connector> {
  readonly context: DeliveryContext;
  readonly request: DeliveryRequest;
  readonly connector: C;
  readonly feed: Feed;
  readonly session: Session;
  /** A folder for this stream's delivery alone; removed after it. */
  readonly folder: string;
  /** Of a row, on average, where rows are largest. Unknown, and 0, in a dry run, and of files in a bucket. */
  readonly rowBytes?: number;
  readonly progress: DeliveryProgress;
  /** Does a work of which the destination takes one at a time; left out if nothing else is delivered to it in parallel. */
  readonly inTurn?: <T>(work: () => Promise<T>) => Promise<T>;
}

/** The progress of one stream's delivery, for display. */
export interface DeliveryProgress {
  readonly destination: string;
  readonly stream: string;
  phase: 'waiting' | 'preparing' | 'loading' | 'verifying' | 'retrying' | 'done' | 'failed';
  rows: number;
  /** Rows of the load; undefined until it is known. */
  total: number | undefined;
}

/** How the delivery of one stream to a destination ended, with its error as it was thrown. */
export interface StreamDelivery extends Readonly<Omit<DestinationReport, 'schema_changes' | 'error'>> {
  /** Variant columns that the destination has since this delivery. */
  readonly variants: readonly SchemaChange[];
  readonly error: CdsyncError | undefined;
}

/** The result of delivering one stream to one destination. */
export interface Delivered {
  /** Whether the user interrupted it after these rows. */
  readonly isCutShort?: true;
  /** Number of rows that the destination took. */
  readonly rows: number;
  readonly action: 'nothing' | 'increment' | 'append' | 'reload' | 'create' | 'export';
  /** Why this action; empty if it goes without saying. */
  readonly why: string;
  /** Values, or records, that the destination cannot hold, also those of earlier deliveries. */
  readonly refused: number;
  /** Records on which the receiver failed: the next delivery sends them as they then are. */
  readonly waiting?: number;
  /** Names of the files that were handed over. */
  readonly files?: readonly string[];
  /** Those of the refused that no earlier delivery has found. */
  readonly newlyRefused: number;
  /** Columns for texts that the destination has beside columns of another type, since this delivery. */
  readonly variants?: readonly SchemaChange[];
  /** Number of the last erasure that the destination has carried out now; left out if this delivery carried out none. */
  readonly erased?: number | undefined;
  /** A problem that was found by the delivery, which has nevertheless updated the rows. */
  readonly problem?: CdsyncError;
  /** Whether something that loads have left is still to be removed. Default: no. */
  readonly owes?: boolean;
}

/** The error of a delivery that was interrupted after the destination had taken rows. */
export function cutShort(stream: string): CdsyncError {
  return new CdsyncError('interrupted: these rows are there, but nothing was verified', {
    code: 'interrupted',
    stream,
    hint: 'cdsync push sends the rest, if there is one',
  });
}

/** The error of a delivery without a snapshot. */
export function nothingPublished(stream: string): CdsyncError {
  return new CdsyncError(`stream "${stream}" has no snapshot yet`, {
    code: 'not_published',
    stream,
    hint: 'run it first: cdsync run',
  });
}

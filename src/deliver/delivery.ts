import type { DestinationConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import type { Connector, ServiceAccess } from '../sdk/destination.js';
import type { DatabaseOptions, Session } from '../store/duckdb.js';
import type { Feed } from '../store/feed.js';
import type { JobLayout } from '../store/layout.js';

/** What a delivery works with. */
export interface DeliveryContext {
  readonly layout: JobLayout;
  /** For DuckDB, of all destinations together. */
  readonly resources: DatabaseOptions;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly service: ServiceAccess;
  /** Tells a person something, on a line of its own. */
  readonly notice: (line: string) => void;
}

/** What is asked of the delivery to one destination. */
export interface DeliveryRequest {
  readonly destination: DestinationConfig;
  /** Those of its streams that are meant. */
  readonly streams: readonly string[];
  /** Sends everything, whatever the destination has. */
  readonly full: boolean;
  /** Takes over tables and watermarks that are not known. */
  readonly adopt: boolean;
}

/** The delivery of one stream to one destination. */
export interface StreamTask<C extends Connector> {
  readonly context: DeliveryContext;
  readonly request: DeliveryRequest;
  readonly connector: C;
  readonly feed: Feed;
  readonly session: Session;
  /** Of this stream's delivery alone; goes with it. */
  readonly folder: string;
  readonly progress: DeliveryProgress;
}

/** What a delivery is doing for one stream, so that it can be shown. */
export interface DeliveryProgress {
  readonly destination: string;
  readonly stream: string;
  phase: 'waiting' | 'preparing' | 'loading' | 'verifying' | 'retrying' | 'done' | 'failed';
  rows: number;
  /** Rows of the load; undefined until it is known. */
  total: number | undefined;
}

/** What became of one stream in one destination. */
export interface Delivered {
  /** Rows that were handed over and stand there now. */
  readonly rows: number;
  /** Rows that wait for another try. */
  readonly rejected: number;
}

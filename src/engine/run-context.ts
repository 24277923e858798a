import type { ServiceClient } from '../client/client.js';
import type { Config, JobConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import type { Converter } from '../extract/convert/converter.js';
import type { Database } from '../store/duckdb.js';
import type { JobLayout } from '../store/layout.js';
import type { Salts } from './column-rules.js';
import type { RunProgress } from './progress.js';

/** What a run is asked to do in another way than usual. */
export interface RunChoices {
  /** Only these streams; all where left out. */
  readonly only: readonly string[] | undefined;
  /** Starts every stream anew, whatever an earlier run has read. */
  readonly full: boolean;
  /** Only this span of time is read, of the streams that are read by time, whatever was read before: milliseconds since 1970. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  /** Streams that are about other records than before become the new baseline. */
  readonly accept: boolean;
  /** Columns that were hashed with another salt are hashed anew. */
  readonly rekey: boolean;
}

/** What everything in a run works with. */
export interface RunContext extends RunChoices {
  readonly config: Config;
  readonly job: JobConfig;
  readonly layout: JobLayout;
  readonly client: ServiceClient;
  readonly database: Database;
  readonly converter: Converter;
  readonly clock: Clock;
  /** Aborts when the user asks to stop; what was read is then in the journals. */
  readonly signal: AbortSignal;
  readonly progress: RunProgress;
  /** Tells a person something, on a line of its own. */
  readonly notice: (line: string) => void;
  readonly salts: Salts;
}

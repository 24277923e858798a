import type { ServiceClient } from '../api/client.js';
import type { Config, JobConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import type { CdsyncError } from '../core/errors.js';
import type { PartConverter } from '../extract/convert/converter.js';
import type { CacheMemory } from '../record-cache/cache-memory.js';
import type { Database } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import type { AfterRun } from './after-run.js';
import type { Salts } from './column-rules.js';
import type { RemoteJobHandle } from './job-files.js';
import type { RunProgress } from './progress.js';

/** Options of one run, from the command line. */
export interface RunChoices {
  /** Only these streams; undefined for all. */
  readonly only: readonly string[] | undefined;
  /** Starts every stream again, even if an earlier run has read part of it. */
  readonly full: boolean;
  /** Reads only streams that are read by time, and only this span, even if it was read before: milliseconds since 1970. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  /** Accepts streams whose definition changed: their present records are the new baseline. */
  readonly accept: boolean;
  /** Hashes columns with a changed salt again. */
  readonly rekey: boolean;
}

/** Options of an approval. */
export interface ApproveChoices {
  /** Whether the destinations are loaded too. */
  readonly push: boolean;
}

/** The objects and options that all parts of a run use. */
export interface RunContext extends RunChoices {
  readonly config: Config;
  readonly job: JobConfig;
  readonly layout: JobLayout;
  readonly client: ServiceClient;
  readonly database: Database;
  readonly converter: PartConverter;
  readonly clock: Clock;
  /** Aborts when the user asks to stop. The journals keep all complete parts. */
  readonly signal: AbortSignal;
  readonly progress: RunProgress;
  /** Shows the user a line. */
  readonly notice: (line: string) => void;
  /** Completes the commands in the hint of an error, so that they work on this job. Left out: hints stay as they are. */
  readonly hinted?: ((hint: string, job: string) => string) | undefined;
  /** Whether notices may show values of records, and ids. */
  readonly showsValues?: boolean | undefined;
  /** Gets each error of a stream or a destination as it was thrown: a report has no causes. */
  readonly failed?: ((error: CdsyncError) => void) | undefined;
  readonly salts: Salts;
  readonly caches: CacheMemory;
  /** If the job is in a bucket: checkpoints and results are uploaded there. */
  readonly bucket?: RemoteJobHandle | undefined;
  /** Sends notifications and metrics, and runs commands; undefined if the job has none. */
  readonly afterRun?: AfterRun | undefined;
}

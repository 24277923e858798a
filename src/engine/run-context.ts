import type { ServiceClient } from '../api/client.js';
import type { Config, JobConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import type { CdsyncError } from '../core/errors.js';
import type { PartConverter } from '../extract/convert/converter.js';
import type { Database } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import type { AfterRun } from './after-run.js';
import type { Salts } from './column-rules.js';
import type { RemoteJobHandle } from './job-files.js';
import type { RunProgress } from './progress.js';

/** What the user asks a run to do differently. */
export interface RunChoices {
  /** Only these streams; undefined for all. */
  readonly only: readonly string[] | undefined;
  /** Starts every stream again, even if an earlier run has read part of it. */
  readonly full: boolean;
  /** Reads only streams that are read by time, and only this span, even if it was read before: milliseconds since 1970. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  /** Accepts streams whose definition changed: what they bring now is the new baseline. */
  readonly accept: boolean;
  /** Hashes columns with a changed salt again. */
  readonly rekey: boolean;
}

/** What every part of a run needs. */
export interface RunContext extends RunChoices {
  readonly config: Config;
  readonly job: JobConfig;
  readonly layout: JobLayout;
  readonly client: ServiceClient;
  readonly database: Database;
  readonly converter: PartConverter;
  readonly clock: Clock;
  /** Aborts when the user asks to stop. The journals keep what was read. */
  readonly signal: AbortSignal;
  readonly progress: RunProgress;
  /** Shows the user a line. */
  readonly notice: (line: string) => void;
  /** Completes the commands in the hint of an error, so that they work on this job. Left out: hints stay as they are. */
  readonly hinted?: ((hint: string, job: string) => string) | undefined;
  /** Gets each error of a stream or a destination as it was thrown: a report has no causes. */
  readonly failed?: ((error: CdsyncError) => void) | undefined;
  readonly salts: Salts;
  /** Of a job in a bucket: checkpoints and results go there. */
  readonly bucket?: RemoteJobHandle | undefined;
  /** Tells people and programs outside; undefined if nobody is to be told. */
  readonly afterRun?: AfterRun | undefined;
}

/** The library: everything that a program can import from cdsync. */

export type { Config, JobConfig, StreamConfig } from './config/config.js';
export { loadConfig } from './config/load.js';
export { CdsyncError, type ErrorKind } from './core/errors.js';
export type {
  DestinationReport,
  JobReport,
  ReportedError,
  RunReport,
  RunStatus,
  StreamReport,
  StreamStatus,
} from './core/run-report.js';
export type { RunProgress } from './engine/progress.js';
export { type RunOptions, run } from './engine/run/run.js';
export type { Account, Budget, Permit, RateLimiter } from './rate-limit/budget.js';
export { openBudget } from './rate-limit/open-budget.js';
export { type Manifest, readManifest } from './snapshot/manifest.js';

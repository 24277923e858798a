/** The library: what a program can import from cdsync. */
export type { Account, Allowance, Budget, Permit } from './client/budget.js';
export { openBudget } from './client/open-budget.js';
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
} from './core/run.js';
export type { RunProgress } from './engine/progress.js';
export { type RunOptions, run } from './engine/run/run.js';
export { type Manifest, readManifest } from './store/manifest.js';

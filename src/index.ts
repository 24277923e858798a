/** What programs may use of cdsync besides its command line. */
export type { Config, JobConfig, StreamConfig } from './config/config.js';
export { loadConfig } from './config/load.js';
export { CdsyncError, type ErrorKind } from './core/errors.js';
export type { JobReport, RunReport, StreamReport } from './core/run.js';
export { type Engine, withEngine } from './engine/open-engine.js';
export { newProgress, type RunProgress } from './engine/progress.js';
export { runJob } from './engine/run/run-job.js';
export { type Manifest, readManifest } from './store/manifest.js';

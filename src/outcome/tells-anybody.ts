import type { JobConfig } from '../config/config.js';

/** Whether anybody or anything is told of the runs of a job. If not, nothing of it needs to be loaded. */
export function tellsAnybody({ notify, metrics, after }: Pick<JobConfig, 'notify' | 'metrics' | 'after'>): boolean {
  return notify.length > 0 || after.length > 0 || metrics.textfile !== undefined || metrics.otlp !== undefined;
}

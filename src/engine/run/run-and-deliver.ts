import type { JobReport } from '../../core/run.js';
import { keepReport } from '../report-job.js';
import type { RunContext } from '../run-context.js';
import { serviceAccess } from '../service-access.js';
import { runJob } from './run-job.js';
import { statusWithDestinations } from './run-status.js';

/**
 * One run of a job, and then the delivery of what it has published. By then the job's lock is free again: a slow destination
 * delays no later run.
 * @throws {CdsyncError} what {@link runJob} throws
 */
export async function runAndDeliver(context: RunContext): Promise<JobReport> {
  const report = await runJob(context);
  const { job, layout, progress, client, clock, signal } = context;
  if (job.destinations.length === 0 || signal.aborted) return report;
  const { deliverJob } = await import('./deliver-job.js');
  const began = clock.monotonic();
  progress.phase = 'delivering';
  const destinations = await deliverJob(
    { ...context, resources: context.config.resources, service: serviceAccess(client, context.notice) },
    { job, streams: context.only, progress: progress.destinations },
  );
  progress.phase = 'done';
  const status = signal.aborted ? 'interrupted' : statusWithDestinations(report.status, destinations);
  const seconds = report.seconds + (clock.monotonic() - began) / 1000;
  const complete: JobReport = { ...report, status, destinations, seconds };
  const write = () => keepReport(layout, complete);
  // The lock is free: a run that begins meanwhile takes the file under its temporary name for what a crash has left.
  await write().catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? write() : Promise.reject(error)));
  return complete;
}

import type { DestinationReport, JobReport, RunStatus } from '../../core/run.js';
import { writeFileAtomically } from '../../store/durable.js';
import type { RunContext } from '../run-context.js';
import { serviceAccess } from '../service-access.js';
import { runJob } from './run-job.js';

/** What a run's status becomes with what its destinations have done. */
export function statusWithDestinations(status: RunStatus, destinations: readonly DestinationReport[]): RunStatus {
  const failed = destinations.some((each) => each.status === 'failed' || each.status === 'partial');
  const delivered = destinations.some(({ rows, status: each }) => rows > 0 && (each === 'ok' || each === 'partial'));
  if (status === 'failed') return delivered ? 'partial' : 'failed';
  if (!failed || status === 'interrupted') return status;
  // What a guard holds was not committed; of everything else something was, now or before.
  return status === 'held' && !delivered ? 'failed' : 'partial';
}

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
  const document = { status, jobs: [complete], error: null };
  const write = () => writeFileAtomically(layout.report(report.run_id), `${JSON.stringify(document, null, 1)}\n`);
  // The lock is free: a run that begins meanwhile takes the file under its temporary name for what a crash has left.
  await write().catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? write() : Promise.reject(error)));
  return complete;
}

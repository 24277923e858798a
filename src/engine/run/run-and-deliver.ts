import { asCdsyncError } from '../../core/errors.js';
import { inSeconds } from '../../core/quantities.js';
import type { DestinationReport, JobReport } from '../../core/run-report.js';
import { finishRun, hasAfterRun } from '../finish-run.js';
import { serviceAccess } from '../open-engine.js';
import { keepReport, withDestinations, withRemovalOwed } from '../report-job.js';
import type { RunContext } from '../run-context.js';
import { runJob } from './run-job.js';
import { statusWithDestinations } from './run-status.js';

/** Whether a run was interrupted before its commit. After the commit, the report has an entry for each destination. */
function isInterrupted({ status, streams }: JobReport): boolean {
  return status === 'interrupted' && !streams.some((stream) => stream.status === 'ok');
}

/** Whether a commit is not published yet. Destinations get only published snapshots. */
function isUnpublished({ streams }: JobReport): boolean {
  return streams.some(({ status, error }) => status === 'ok' && error !== null);
}

/** An entry for each delivery that was not tried. */
function notTried({ job, only }: RunContext): DestinationReport[] {
  return job.destinations.flatMap(({ name, streams }) =>
    streams
      .filter((stream) => only === undefined || only.includes(stream))
      .map(
        (stream) =>
          ({
            name,
            stream,
            status: 'not_tried',
            action: 'nothing',
            why: '',
            rows: 0,
            refused: 0,
            waiting: 0,
            seconds: 0,
            error: null,
          }) as const,
      ),
  );
}

/**
 * Runs a job, delivers the published snapshot, and reports the result. The job's lock is free during the delivery, so a slow
 * destination delays no later run.
 * @throws {CdsyncError} as {@link runJob}
 */
export async function runAndDeliver(context: RunContext): Promise<JobReport> {
  const afterRun = hasAfterRun(context.job) ? new (await import('../after-run.js')).AfterRun(context) : undefined;
  let report: JobReport;
  try {
    report = await reportOfRun({ ...context, afterRun });
  } catch (error) {
    await afterRun?.failed(asCdsyncError(error));
    throw error;
  }
  await finishRun({ ...context, report, afterRun });
  return report;
}

/** Runs the job. If it is in a bucket, checkpoints are uploaded during the run, and the commit before deliveries and notifications. */
async function runAndUpload(context: RunContext): Promise<JobReport> {
  const { bucket, progress } = context;
  if (bucket === undefined) return runJob(context);
  const withLease = { ...context, signal: AbortSignal.any([context.signal, bucket.lost]) };
  bucket.keepCheckpoints(() => progress.phase === 'reading');
  const report = await runJob(withLease);
  await bucket.upload();
  return keepReport(context, withRemovalOwed({ ...report, bucket: bucket.figures }, context.layout));
}

async function reportOfRun(context: RunContext): Promise<JobReport> {
  context.progress.share = () => context.client.share('profile');
  const report = await runAndUpload(context);
  const { job, progress, client, clock, signal } = context;
  if (job.destinations.length === 0) return report;
  if (isInterrupted(report) || isUnpublished(report))
    return keepReport(context, { ...report, destinations: notTried(context) });
  const { deliverJob } = await import('./deliver-job.js');
  const began = clock.monotonic();
  progress.phase = 'delivering';
  const destinations = await deliverJob(
    {
      ...context,
      resources: context.config.resources,
      patienceMs: context.config.patienceMs,
      service: serviceAccess(client, context.notice),
    },
    { job, streams: context.only, progress: progress.destinations },
  );
  progress.phase = 'done';
  const status = signal.aborted ? 'interrupted' : statusWithDestinations(report.status, destinations);
  const seconds = inSeconds(report.seconds * 1000 + clock.monotonic() - began);
  const keep = () => keepReport(context, { ...withDestinations(report, destinations), status, seconds });
  // The lock is free: a run that begins now may take the temporary file for the rest of a crash, and remove it.
  return keep().catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? keep() : Promise.reject(error)));
}

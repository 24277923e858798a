import type { JobConfig, LocalConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { inSeconds } from '../../core/quantities.js';
import type { JobReport } from '../../core/run-report.js';
import type { DeliveryContext } from '../../delivery/delivery.js';
import { readFeed } from '../../snapshot/feed.js';
import { recordDecisions } from '../../storage/decisions.js';
import type { JobLayout } from '../../storage/layout.js';
import { pastRuns } from '../../storage/reports.js';
import { prepareStorage } from '../../storage/storage.js';
import { hasAfterRun } from '../finish-run.js';
import { withRemovalOwed } from '../report-job.js';
import { type DeliverJobOptions, deliverJob, requireDestinations } from './deliver-job.js';
import { statusOfDeliveries } from './run-status.js';

/** The newest of the runs that published the delivered streams. */
async function newestRun(
  layout: JobLayout,
  { streams }: JobConfig,
): Promise<{ runId: string; sequence: number | null }> {
  let newest: { runId: string; sequence: number | null } = { runId: '', sequence: null };
  for (const { name } of streams) {
    const feed = await readFeed(layout, name).catch(() => undefined);
    if (feed !== undefined && feed.sequence >= (newest.sequence ?? 0))
      newest = { runId: feed.run_id, sequence: feed.sequence };
  }
  return newest;
}

/** Notes who takes over tables. */
function noteAdoption({ layout, clock }: DeliveryContext, { job, destinations, streams }: DeliverJobOptions) {
  const chosen = job.destinations.filter(({ name }) => destinations?.includes(name) ?? true);
  const places = chosen.flatMap(({ name, streams: delivered }) =>
    delivered
      .filter((stream) => streams?.includes(stream) ?? true)
      .map((stream) => ({ destination: name, stream, configured: true })),
  );
  return recordDecisions(layout, clock.now(), () => [{ action: 'adopt', places }]);
}

/**
 * Delivers the published snapshot without a run.
 * @throws {CdsyncError} `destination_not_found`, `stream_not_found`; `locked` if another process delivers to all of them
 */
export async function pushJob(context: DeliveryContext, options: DeliverJobOptions): Promise<JobReport> {
  const { layout, clock, signal } = context;
  const { job } = options;
  const began = clock.monotonic();
  requireDestinations(job);
  await prepareStorage(layout, job.publish.mode);
  if (options.adopt) await noteAdoption(context, options);
  const destinations = await deliverJob(context, options);
  const locked = destinations.filter(({ error }) => error?.code === 'locked');
  if (locked[0]?.error && locked.length === destinations.length) {
    const { message, hint } = locked[0].error;
    throw new CdsyncError(message, { code: 'locked', hint: hint ?? undefined });
  }
  const { runId, sequence } = await newestRun(layout, job);
  const report: JobReport = {
    job: job.name,
    run_id: runId,
    sequence,
    resumed: false,
    status: signal.aborted ? 'interrupted' : statusOfDeliveries(destinations),
    streams: [],
    destinations,
    seconds: inSeconds(clock.monotonic() - began),
  };
  return withRemovalOwed(report, layout);
}

/**
 * Delivers the published snapshot without a run, notifies if that changes the job's status, and updates `metrics`. It runs no
 * commands of `after`, because it publishes nothing.
 * @throws {CdsyncError} as {@link pushJob}
 */
export async function pushAndNotify(
  context: DeliveryContext & { readonly config: LocalConfig },
  options: DeliverJobOptions,
): Promise<JobReport> {
  const { job } = options;
  if (!hasAfterRun(job)) return pushJob(context, options);
  const { AfterRun } = await import('../after-run.js');
  const nothing = { progress: { phase: '', streams: [] }, accept: true, rekey: false, range: undefined };
  const afterRun = new AfterRun({ ...context, job, ...nothing });
  const report = await pushJob(context, options);
  const [last] = await pastRuns(context.layout, 1);
  await afterRun.followed('delivery', report, last?.report);
  return report;
}

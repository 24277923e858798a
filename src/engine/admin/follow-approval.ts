import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import type { DestinationReport, JobReport, StreamReport } from '../../core/run-report.js';
import { serviceAccess } from '../open-engine.js';
import { reportStream } from '../report-job.js';
import { deliverJob } from '../run/deliver-job.js';
import { runJob } from '../run/run-job.js';
import { type Dependants, dependants } from '../run/stream-order.js';
import type { RunContext } from '../run-context.js';

/** What followed from an approval. */
interface Followed {
  /** The streams that depend on the approved ones: computed again, or still of an older snapshot. */
  readonly streams: readonly StreamReport[];
  readonly destinations: readonly DestinationReport[];
  /** The run that computed streams. */
  readonly run?: Pick<JobReport, 'run_id' | 'sequence'> | undefined;
}

/** A dependent stream that was not computed. */
function stillOld(name: string, error: CdsyncError, runId: string): StreamReport {
  return reportStream({ name, error, counters: undefined, commit: undefined, findings: [], skipped: true }, runId);
}

function needsRequests(name: string, approved: readonly string[]): CdsyncError {
  return new CdsyncError(
    `stream "${name}" depends on the approval of ${approved.join(', ')} and is of the snapshot before: it needs the service`,
    {
      code: 'dependency',
      stream: name,
      hint: `cdsync run --stream ${name}; its guards do not hold what follows from the approval`,
    },
  );
}

/** The streams that depend on others of the job. */
export async function dependantsOf(
  { job, database }: Pick<RunContext, 'job' | 'database'>,
  approved: readonly string[],
): Promise<Dependants> {
  const session = await database.connect();
  return dependants(session, job.streams, approved).finally(() => session.close());
}

/**
 * Updates the streams and destinations that depend on approved streams: queries over them are computed again, and the destinations
 * are loaded. Streams that need requests to the service are only named. A failure is in the result, because the approval counts.
 * @param isComplete whether the job's files are all on this disk
 */
export async function followApproval(
  context: RunContext,
  { run_id: runId, streams: committed }: JobReport,
  { push, isComplete }: { readonly push: boolean; readonly isComplete: boolean },
): Promise<Followed> {
  const { job } = context;
  const approved = committed.map(({ name }) => name);
  const dependents = await dependantsOf(context, approved);
  const waiting = isComplete ? dependents.requested : [...dependents.computed, ...dependents.requested];
  const streams = waiting.map((name) => stillOld(name, needsRequests(name, approved), runId));
  const done =
    isComplete && dependents.computed.length > 0 ? await computed(context, dependents.computed, runId) : undefined;
  streams.push(...(done?.streams ?? []));
  const fresh = [...approved, ...streams.flatMap(({ name, status }) => (status === 'ok' ? [name] : []))];
  const mayDeliver = push && isComplete && job.destinations.length > 0;
  return { streams, run: done?.run, destinations: mayDeliver ? await delivered(context, fresh) : [] };
}

async function computed(
  context: RunContext,
  only: readonly string[],
  runId: string,
): Promise<Pick<Followed, 'streams' | 'run'>> {
  try {
    const run = await runJob({ ...context, only, full: false, range: undefined, afterRun: undefined });
    return { streams: run.streams, run };
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    return { streams: only.map((name) => stillOld(name, error, runId)) };
  }
}

async function delivered(context: RunContext, streams: readonly string[]): Promise<DestinationReport[]> {
  const { job, client, config, notice, progress } = context;
  return deliverJob(
    {
      ...context,
      resources: config.resources,
      patienceMs: config.patienceMs,
      service: serviceAccess(client, notice),
    },
    { job, streams, progress: progress.destinations },
  );
}

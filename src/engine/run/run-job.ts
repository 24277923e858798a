import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { asCdsyncError } from '../../core/errors.js';
import { formatDuration, inSeconds } from '../../core/quantities.js';
import type { JobReport } from '../../core/run-report.js';
import { sqlText } from '../../core/sql.js';
import { keepColumnFigures } from '../../pages/column-figures.js';
import { openFitted } from '../../snapshot/compact.js';
import type { SnapshotStore, StoreState } from '../../snapshot/snapshot-store.js';
import { settleApprovals } from '../../storage/approvals.js';
import type { Session } from '../../storage/duckdb.js';
import { heldStreams } from '../../storage/held.js';
import { type JobLock, withJobLock } from '../../storage/job-lock.js';
import { createRun, discardRun, discardStreams, type RunIdentity, streamsIn } from '../../storage/run-state.js';
import { prepareStorage, runFolders } from '../../storage/storage.js';
import { keepReport, reportJob } from '../report-job.js';
import type { RunContext } from '../run-context.js';
import { type Committed, commitAndPublish, publishHeld } from './commit-and-publish.js';
import type { OpenedStream } from './open-stream.js';
import { type PreviousState, recover } from './recover.js';
import { type FinishedRunState, removable } from './removable.js';
import { requireSpace } from './require-space.js';
import { statusOf } from './run-status.js';
import { compareStages, Stage, type StageTask } from './stage.js';
import { chosenStreams, orderStreams } from './stream-order.js';
import type { StreamRun } from './stream-run.js';

/** A clock counts as wrong if it is further than this from the last run, and from the service. */
const farMs = 86_400_000;

/** Times that a run can compare. */
interface ClockReadings {
  /** By this machine, in milliseconds since 1970. */
  readonly now: number;
  /** How far this machine's clock is ahead of the service's; undefined if no response had a date. */
  readonly aheadMs: number | undefined;
  readonly streams: StoreState['streams'];
}

/**
 * Why the clock of this machine cannot be trusted: it is far from the last run and from the service. If it is only far from the last
 * run, the job has not run for long. Undefined if it can be trusted.
 */
function clockProblem({ now, aheadMs, streams }: ClockReadings): string | undefined {
  const last = Math.max(...[...streams.values()].map(({ synced_at: at }) => Date.parse(at)));
  if (aheadMs === undefined || !Number.isFinite(last)) return undefined;
  if (Math.abs(now - last) <= farMs || Math.abs(aheadMs) <= farMs) return undefined;
  const side = aheadMs > 0 ? 'ahead of' : 'behind';
  return `the clock of this machine is ${formatDuration(Math.abs(aheadMs))} ${side} the service's; nothing old was removed. Set the clock`;
}

/** After a run, removes files in the runs' folders that no later run needs: see {@link removable}. */
async function cleanUp(
  { layout, only, range, job }: Pick<RunContext, 'layout' | 'only' | 'range' | 'job'>,
  end: Pick<FinishedRunState, 'runId' | 'streams' | 'isInterrupted'>,
): Promise<void> {
  const names = job.streams.map(({ name }) => name);
  const held = (await heldStreams(layout, names)).map(({ run_id: runId, stream }) => ({ runId, stream }));
  const folders: { runId: string; streams: string[] }[] = [];
  for (const runId of await runFolders(layout)) folders.push({ runId, streams: await streamsIn(layout, runId) });
  const isPart = only !== undefined || range !== undefined;
  const { runs, streams } = removable({ ...end, isPart, folders, held });
  for (const { runId, stream } of streams) await discardStreams(layout, runId, [stream]);
  for (const runId of runs) await discardRun(layout, runId);
}

/**
 * The run to resume: an earlier one that has committed nothing and holds nothing. Otherwise a new one, which takes over the
 * parts of the earlier.
 */
async function resolveRun(
  { layout, job, clock }: Pick<RunContext, 'layout' | 'job' | 'clock'>,
  opened: readonly OpenedStream[],
  before: PreviousState,
): Promise<RunIdentity> {
  const unfinished = opened.flatMap(({ unfinished: unfinishedStream }) =>
    unfinishedStream === undefined ? [] : [unfinishedStream.run],
  );
  const newest = unfinished.sort((a, b) => (a.runId < b.runId ? 1 : -1))[0];
  const names = job.streams.map(({ name }) => name);
  const holds = (await heldStreams(layout, names)).some(({ run_id }) => run_id === newest?.runId);
  if (newest !== undefined && !holds && !before.committed.has(newest.runId)) return newest;
  return createRun(layout, clock.now());
}

/**
 * Reads, compares, commits and publishes, stage by stage. The signal counts until the commit; after it, the rest is done.
 * @returns undefined if the run was interrupted before its commit
 */
async function readAndCommit(
  context: RunContext,
  stages: readonly Stage[],
  session: Session,
  task: StageTask,
): Promise<Committed | undefined> {
  const { database, layout, progress, signal } = context;
  const { before } = task;
  progress.phase = 'reading';
  await unlessInterrupted(signal, () => session.until(signal, async () => stages[0]?.read(task, session)));
  if (signal.aborted) return undefined;
  const read = stages[0]?.streams ?? [];
  const widths = await Promise.all(read.map((stream) => stream.width()));
  const widestColumns = Math.max(0, ...widths);
  return database.use('comparing', { widestColumns }, async () => {
    const store = await openFitted(database, layout, { sequence: before.sequence, widths });
    return compareAndCommit(context, store, stages, task);
  });
}

async function compareAndCommit(
  context: RunContext,
  store: SnapshotStore,
  stages: readonly Stage[],
  task: StageTask,
): Promise<Committed | undefined> {
  const { signal, config } = context;
  const { run, before } = task;
  try {
    await store.session.run(`SET file_search_path = ${sqlText(dirname(config.file))}`);
    const isCompared = await store.session.until(signal, () => compareStages(context, store, stages, task));
    if (!isCompared) return undefined;
    const streams = stages.flatMap((stage) => stage.streams);
    const commits = streams.flatMap(({ commit }) => (commit === undefined ? [] : [commit]));
    // The commit reads files only, so the memory of the readings is freed for it.
    for (const stream of streams) await stream.close();
    const { sequence } = before;
    const status = statusOf(streams);
    if (commits.length === 0) {
      if (status === 'held') await noteHeldRun(context, store, run);
      return { sequence, unpublished: undefined };
    }
    const isNews = status !== 'ok' || commits.some(({ rejects }) => rejects.length > 0);
    const keepsAll = findClockProblem(context, before) !== undefined;
    const committed = await commitAndPublish({ ...context, keepsAll }, store, {
      run,
      status,
      sequence,
      streams: commits,
      isNews,
    });
    for (const { commit, outcome } of streams) if (commit !== undefined) outcome.unpublished = committed.unpublished;
    return committed;
  } catch (error) {
    if (asCdsyncError(error).kind === 'interrupted') return undefined;
    throw error;
  } finally {
    await store.close();
  }
}

/** Why the clock cannot be trusted; undefined if it can. */
function findClockProblem({ client, clock }: RunContext, { streams }: StageTask['before']): string | undefined {
  return clockProblem({ now: clock.now(), aheadMs: client.aheadMs, streams });
}

/** Publishes a note that the run is held. The held streams are on disk already, so a failure is only a warning. */
async function noteHeldRun(context: RunContext, store: SnapshotStore, run: StageTask['run']): Promise<void> {
  await publishHeld(context, store, run).catch((error) => {
    context.notice(`warning: cdsync.runs of the published file lacks this run: ${asCdsyncError(error).message}`);
  });
}

/** Chooses the run's id and makes its folder ready. */
async function beginRun(
  context: RunContext,
  lock: JobLock,
  streams: readonly StreamRun[],
  before: StageTask['before'],
) {
  const { progress } = context;
  const run = await resolveRun(
    context,
    streams.flatMap(({ opened }) => (opened === undefined ? [] : [opened])),
    before,
  );
  progress.runId = run.runId;
  await lock.describe({ run_id: run.runId });
  return run;
}

/** Does the work until the signal aborts. An interrupted run still gets a report. */
async function unlessInterrupted(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  if (signal.aborted) return;
  try {
    await work();
  } catch (error) {
    if (!signal.aborted || asCdsyncError(error).kind !== 'interrupted') throw error;
  }
}

/** Stores column statistics for the page about the run. */
async function keepFigures(context: RunContext, runId: string, streams: readonly StreamRun[]) {
  const results = streams.map(({ result }) => result);
  await keepColumnFigures(context, runId, results).catch((error) => {
    context.notice(`warning: the report will not show the columns of run ${runId}: ${asCdsyncError(error).message}`);
  });
}

async function runLocked(context: RunContext, lock: JobLock, session: Session): Promise<JobReport> {
  const { clock, layout, progress, database, job } = context;
  const began = clock.monotonic();
  await context.salts.define(database, job);
  const ordered = await orderStreams(session, chosenStreams(context), job.streams);
  const before = await recover(context);
  const stages = ordered.map((stage) => new Stage(context, stage));
  const streams = stages.flatMap((stage) => stage.streams);
  try {
    await unlessInterrupted(context.signal, async () => {
      await requireSpace(context, chosenStreams(context), before);
      if (job.before.length > 0) await (await import('../workflow/before-run.js')).beforeRun(context, streams);
      await session.until(context.signal, async () => stages[0]?.open(before, session));
    });
    const run = await beginRun(context, lock, streams, before);
    const committed = await readAndCommit(context, stages, session, { run, before });
    for (const stream of streams) await stream.close();
    // If a damaged local file failed a stream, the bucket may have an intact copy.
    const { bucket } = context;
    for (const { outcome } of streams)
      if (bucket && outcome.error?.code === 'state_unreadable') outcome.error = bucket.invalidateCache(outcome.error);
    const isInterrupted = committed === undefined;
    const isUnpublished = committed?.unpublished !== undefined;
    if (isInterrupted) for (const stream of streams) stream.interrupt();
    // If the commit is not published, the next run publishes the files in this folder.
    if (!isUnpublished)
      await cleanUp(context, { runId: run.runId, isInterrupted, streams: streams.map(({ end }) => end) });
    if (!isInterrupted && existsSync(layout.startedWorkflows))
      await (await import('../workflow/started-workflows.js')).forgetStarted(layout);
    const counted = committed === undefined ? [] : streams.filter(({ commit }) => commit !== undefined);
    const settled = Object.fromEntries(counted.map(({ name, outcome }) => [name, outcome.remarks ?? []]));
    if (counted.length > 0) await settleApprovals(layout, settled);
    await keepFigures(context, run.runId, isInterrupted ? [] : streams);
    progress.phase = 'done';
    return reportJob({
      job: job.name,
      run,
      resumed: streams.some(({ opened }) => opened?.unfinished !== undefined),
      sequence: (committed?.sequence ?? before.sequence) || null,
      status: context.signal.aborted ? 'interrupted' : isUnpublished ? 'partial' : statusOf(streams),
      seconds: inSeconds(clock.monotonic() - began),
      streams: inConfiguredOrder(context, streams).map(({ outcome }) => outcome),
      deprecations: context.client.deprecations,
      clockProblem: findClockProblem(context, before),
      unconfigured: [...before.streams.keys()].filter((name) => !job.streams.some((stream) => stream.name === name)),
    });
  } finally {
    for (const stream of streams) await stream.close().catch(() => undefined);
  }
}

function inConfiguredOrder(context: RunContext, streams: readonly StreamRun[]): StreamRun[] {
  const places = new Map(chosenStreams(context).map(({ name }, index) => [name, index]));
  return [...streams].sort((a, b) => (places.get(a.name) ?? 0) - (places.get(b.name) ?? 0));
}

/**
 * Runs a job, from the lock to the report. A failed stream does not stop the others.
 * @throws {CdsyncError} errors that stop the whole run: `locked`, `storage_newer`, `stream_not_found`, a full disk while committing
 */
export async function runJob(context: RunContext): Promise<JobReport> {
  const { database, layout, job } = context;
  chosenStreams(context);
  await prepareStorage(layout, job.publish.mode);
  return withJobLock(context, layout, async (lock) => {
    context.afterRun?.started();
    const session = await database.connect();
    try {
      // For files that queries name. The streams of the first stage run in this session, without a store.
      await session.run(`SET file_search_path = ${sqlText(dirname(context.config.file))}`);
      const report = await runLocked(context, lock, session);
      return await keepReport(context, report).catch((error) => {
        if (report.status === 'ok') throw error;
        // If the run has failed already, on a full disk for example, its own report matters more than this error.
        context.notice(`warning: the report of this run could not be kept: ${asCdsyncError(error).message}`);
        return report;
      });
    } finally {
      session.close();
    }
  });
}

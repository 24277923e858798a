import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import pLimit from 'p-limit';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nearest } from '../../core/nearest.js';
import type { JobReport, RunStatus } from '../../core/run.js';
import { sqlText } from '../../core/sql.js';
import { commitRun } from '../../snapshot/commit.js';
import { type CompactionReason, compact, compactionReason } from '../../snapshot/compact.js';
import { publish } from '../../snapshot/publish.js';
import { SnapshotStore, type StoreState } from '../../snapshot/snapshot-store.js';
import type { Session } from '../../store/duckdb.js';
import { writeFileAtomically } from '../../store/durable.js';
import { heldStreams } from '../../store/held.js';
import { JobLock } from '../../store/job-lock.js';
import { createRun, discardRun, discardStream, hasStreams, type RunIdentity } from '../../store/run-state.js';
import { prepareStorage, runFolders } from '../../store/storage.js';
import { reportJob } from '../report-job.js';
import type { RunContext } from '../run-context.js';
import { beforeRun } from '../workflow/before-run.js';
import { forgetStarted } from '../workflow/started-workflows.js';
import type { OpenedStream } from './read-stream.js';
import { type Before, publishOptions, recover } from './recover.js';
import { requireSpace } from './require-space.js';
import { type OrderedStream, orderStreams } from './stream-order.js';
import { StreamRun } from './stream-run.js';
import { hideStreams, showStored, showStream } from './stream-views.js';

/** Streams read at once; each has its partitions beside. */
export const streamsAtOnce = 4;

/** Failures by what was read: comparing it once more would only fail once more. */
const startAnew = new Set(['unbalanced', 'key_missing', 'key_not_unique', 'contract_violated']);

/** The streams that a run is to read. @throws {CdsyncError} `stream_not_found`, `usage` */
export function chosenStreams(context: RunContext): readonly StreamConfig[] {
  const named = namedStreams(context);
  if (context.range === undefined) return named;
  const byTime = named.filter(({ reads }) => reads.windows !== undefined);
  if (byTime.length > 0) return byTime;
  throw new CdsyncError('no stream of the run is read by time, so that there is nothing to read again', {
    code: 'usage',
    kind: 'configuration',
    hint: '--from and --to are for the sources that have the option `since`',
  });
}

function namedStreams({ job, only }: RunContext): readonly StreamConfig[] {
  if (only === undefined) return job.streams;
  const known = new Map(job.streams.map((stream) => [stream.name, stream]));
  return only.map((name) => {
    const stream = known.get(name);
    if (stream !== undefined) return stream;
    const near = nearest(name, known.keys());
    throw new CdsyncError(`job "${job.name}" has no stream "${name}"`, {
      code: 'stream_not_found',
      kind: 'configuration',
      hint: `its streams: ${(near.length > 0 ? near : [...known.keys()]).join(', ')}`,
    });
  });
}

/** The run that goes on: an earlier one that has committed and holds nothing, or a new one that takes over its parts. */
async function chooseRun(context: RunContext, opened: readonly OpenedStream[], before: Before): Promise<RunIdentity> {
  const unfinished = opened.flatMap(({ unfinished: found }) => (found === undefined ? [] : [found.run]));
  const newest = unfinished.sort((a, b) => (a.runId < b.runId ? 1 : -1))[0];
  const names = context.job.streams.map(({ name }) => name);
  const holds = (await heldStreams(context.layout, names)).some(({ run_id }) => run_id === newest?.runId);
  if (newest !== undefined && !holds && !before.committed.has(newest.runId)) return newest;
  return createRun(context.layout, context.clock.now());
}

/** Removes what no later run can go on from. */
async function cleanUp(
  { layout, only, range, job }: RunContext,
  streams: readonly StreamRun[],
  run: RunIdentity,
): Promise<void> {
  for (const { name, commit, outcome } of streams) {
    if (commit !== undefined || startAnew.has(outcome.error?.code ?? '')) await discardStream(layout, run.runId, name);
  }
  // Where a stream was not looked at, an earlier run's folder may still hold its checkpoint.
  const all = only === undefined && range === undefined && streams.every(({ opened }) => opened !== undefined);
  // What was held stays until the stream has come to another end.
  const ended = new Set(streams.filter(({ commit, isHeld }) => commit !== undefined || isHeld).map(({ name }) => name));
  for (const { stream, run_id: runId } of await heldStreams(
    layout,
    job.streams.map(({ name }) => name),
  )) {
    if (runId !== run.runId && ended.has(stream)) await discardStream(layout, runId, stream);
  }
  const holding = new Set(
    (
      await heldStreams(
        layout,
        job.streams.map(({ name }) => name),
      )
    ).map(({ run_id }) => run_id),
  );
  for (const runId of await runFolders(layout)) {
    if (runId === run.runId || holding.has(runId)) {
      if (!(await hasStreams(layout, runId))) await discardRun(layout, runId);
    } else if (all) await discardRun(layout, runId);
  }
}

function statusOf(streams: readonly StreamRun[], interrupted: boolean): RunStatus {
  const failed = streams.filter(({ outcome, waits }) => outcome.error !== undefined && !waits).length;
  if (interrupted) return 'interrupted';
  if (failed === 0) return streams.some(({ isHeld }) => isHeld) ? 'held' : 'ok';
  return streams.some(({ commit }) => commit !== undefined) ? 'partial' : 'failed';
}

/** One level of streams: what they are made of is read and compared. */
class Level {
  readonly streams: readonly StreamRun[];
  readonly #ordered: readonly OrderedStream[];
  readonly #limit = pLimit(streamsAtOnce);

  constructor(context: RunContext, ordered: readonly OrderedStream[]) {
    this.#ordered = ordered;
    this.streams = ordered.map(({ config }) => new StreamRun(context, config));
  }

  async open(before: Before, session: Session): Promise<void> {
    await Promise.all(this.streams.map((stream) => this.#limit(() => stream.open(before, session))));
  }

  async read(run: RunIdentity, before: Before, session: Session): Promise<void> {
    await Promise.all(this.streams.map((stream) => this.#limit(() => stream.read(run, before, session))));
  }

  /** Makes what these streams need visible to their queries, and fails those that need what is not there. */
  async supply(done: readonly StreamRun[], before: Before, store: SnapshotStore): Promise<void> {
    const shown = new Set<string>();
    for (const [index, { needs }] of this.#ordered.entries()) {
      for (const name of needs) {
        if (shown.has(name)) continue;
        const needed = done.find((stream) => stream.name === name);
        const stored = before.streams.get(name);
        if (needed?.commit !== undefined) await showStream(store, needed.commit);
        else if (needed === undefined && stored !== undefined) await showStored(store, stored);
        else {
          const isHeld = needed?.isHeld === true || needed?.waits === true;
          await this.streams[index]?.fail(missingDependency(name, needed), { waits: isHeld });
          continue;
        }
        shown.add(name);
      }
    }
  }
}

export function missingDependency(name: string, needed: StreamRun | undefined): CdsyncError {
  if (needed === undefined) {
    return new CdsyncError(`it needs stream "${name}", which has no snapshot yet`, {
      code: 'dependency',
      hint: `run it as well: --stream ${name}`,
    });
  }
  return new CdsyncError(
    `it needs stream "${name}", which ${needed.isHeld || needed.waits ? 'a guard holds' : 'failed'}`,
    {
      code: 'dependency',
      hint: `see what is said of stream "${name}"`,
    },
  );
}

/** Commits the streams that could be read, together. @returns the sequence number that stands */
async function commit(
  { layout, progress, clock, job }: RunContext,
  store: SnapshotStore,
  streams: readonly StreamRun[],
  run: RunIdentity,
  before: Before,
): Promise<number> {
  const commits = streams.flatMap(({ commit: made }) => (made === undefined ? [] : [made]));
  if (commits.length === 0) return before.sequence;
  progress.phase = 'committing';
  return commitRun(store, {
    layout,
    runId: run.runId,
    startedAt: run.startedAt,
    finishedAt: new Date(clock.now()).toISOString(),
    status: statusOf(streams, false),
    sequence: before.sequence,
    streams: commits,
    parquet: job.parquet.enabled,
    historyMs: job.publish.history,
  });
}

/** With `guards.scope: job`, one stream that is held holds all. */
function holdAll(streams: readonly StreamRun[]): void {
  const held = streams.filter(({ isHeld }) => isHeld).map(({ name }) => name);
  for (const stream of streams) {
    if (stream.commit === undefined) continue;
    stream.hold({ guard: 'scope', message: `stream ${held.join(', ')} is held, and with it the whole job` });
  }
}

/** From the first page to the published files, level by level. @returns the sequence number that stands */
async function readAndCommit(
  context: RunContext,
  levels: readonly Level[],
  run: RunIdentity,
  before: Before,
  session: Session,
): Promise<number> {
  const { database, layout, progress, signal, config } = context;
  progress.phase = 'reading';
  await levels[0]?.read(run, before, session);
  if (signal.aborted) return before.sequence;
  const store = await SnapshotStore.open(database, layout);
  const done: StreamRun[] = [];
  let sequence = before.sequence;
  let state: StoreState;
  let reason: CompactionReason | undefined;
  try {
    await store.session.run(`SET file_search_path = ${sqlText(dirname(config.file))}`);
    for (const [number, level] of levels.entries()) {
      if (number > 0) {
        await level.supply(done, before, store);
        await level.open(before, store.session);
        await level.read(run, before, store.session);
      }
      if (signal.aborted) return before.sequence;
      for (const stream of level.streams) await stream.compare(run, before, store);
      done.push(...level.streams);
    }
    if (context.job.guardScope === 'job' && done.some(({ isHeld }) => isHeld)) holdAll(done);
    await hideStreams(store);
    for (const stream of done) await stream.keepHeld(run);
    sequence = await commit(context, store, done, run, before);
    state = await store.state();
    if (sequence > before.sequence) reason = await compactionReason(store, state);
  } finally {
    await store.close();
  }
  progress.phase = 'publishing';
  await compact(database, layout, { reason, sequence });
  await publish(database, layout, state, publishOptions(context));
  return sequence;
}

async function runLocked(context: RunContext, lock: JobLock, session: Session): Promise<JobReport> {
  const { clock, layout, progress, database } = context;
  const began = clock.monotonic();
  await context.salts.define(database, context.job);
  const ordered = await orderStreams(session, chosenStreams(context), context.job.streams);
  const before = await recover(context);
  await requireSpace(context, chosenStreams(context), before);
  const levels = ordered.map((level) => new Level(context, level));
  const streams = levels.flatMap((level) => level.streams);
  try {
    await beforeRun(context, streams);
    await levels[0]?.open(before, session);
    const run = await chooseRun(
      context,
      streams.flatMap(({ opened }) => (opened === undefined ? [] : [opened])),
      before,
    );
    progress.runId = run.runId;
    await lock.describe({ started_at: run.startedAt, run_id: run.runId });
    await mkdir(layout.runTemporary(run.runId), { recursive: true, mode: 0o700 });
    await database.spillTo(layout.runTemporary(run.runId));
    const sequence = await readAndCommit(context, levels, run, before, session);
    for (const stream of streams) await stream.close();
    const interrupted = streams.some(({ outcome }) => outcome.error?.kind === 'interrupted');
    const status = statusOf(streams, interrupted);
    if (!interrupted) {
      await cleanUp(context, streams, run);
      await forgetStarted(layout);
    }
    progress.phase = 'done';
    return reportJob({
      job: context.job.name,
      run,
      resumed: streams.some(({ opened }) => opened?.unfinished !== undefined),
      sequence: sequence === 0 ? null : sequence,
      status,
      seconds: (clock.monotonic() - began) / 1000,
      streams: inConfiguredOrder(context, streams).map(({ outcome }) => outcome),
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
 * One run of a job, from the lock to the report. Streams that fail do not hinder the others.
 * @throws {CdsyncError} what stops the run as a whole: `locked`, `storage_newer`, `stream_not_found`, a full disk while committing
 */
export async function runJob(context: RunContext): Promise<JobReport> {
  const { database, layout, clock, job } = context;
  chosenStreams(context);
  await prepareStorage(layout, job.publish.mode);
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  const session = await database.connect();
  try {
    // Files that queries name; those of the first streams need no store.
    await session.run(`SET file_search_path = ${sqlText(dirname(context.config.file))}`);
    const report = await runLocked(context, lock, session);
    const document = { status: report.status, jobs: [report], error: null };
    await writeFileAtomically(layout.report(report.run_id), `${JSON.stringify(document, null, 1)}\n`).catch((error) => {
      // Where the run has failed already, on a full disk for example, its own report is the one to give.
      if (report.status === 'ok') throw error;
    });
    return report;
  } finally {
    session.close();
    await lock.release();
  }
}

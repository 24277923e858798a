import { mkdir } from 'node:fs/promises';
import pLimit from 'p-limit';
import type { StreamConfig } from '../config/config.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import type { JobReport, RunStatus } from '../core/run.js';
import type { StreamExtraction } from '../extract/stream-extraction.js';
import { commitRun, type StreamCommit } from '../snapshot/commit.js';
import { publish } from '../snapshot/publish.js';
import { distinctValues, SnapshotStore, type StoreState, storeTable } from '../snapshot/snapshot-store.js';
import { sqlTexts } from '../store/duckdb.js';
import { writeFileAtomically } from '../store/durable.js';
import { JobLock } from '../store/job-lock.js';
import { noCounters } from '../store/journal.js';
import { hashVersion } from '../store/row-hash.js';
import { createRun, discardRun, discardStream, hasStreams, type RunIdentity } from '../store/run-state.js';
import { prepareStorage, runFolders } from '../store/storage.js';
import { compareStream } from './compare-stream.js';
import { beginReading, type OpenedStream, openStream } from './read-stream.js';
import { reportJob, type StreamOutcome } from './report-job.js';
import type { RunContext } from './run-context.js';

/** Streams read at once; each has its partitions beside. */
const streamsAtOnce = 4;
/** Snapshots kept as Parquet files, the newest included. */
const keptSnapshots = 3;

/** Failures by what was read: comparing it once more would only fail once more. */
const startAnew = new Set(['empty_answer', 'unbalanced']);

interface Before extends StoreState {
  /** Values of the partitioning attribute in the last snapshot, by stream. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  /** Run folders of runs that have committed. */
  readonly committed: ReadonlySet<string>;
  readonly duckdbVersion: string;
}

function chosenStreams({ job, only }: RunContext): readonly StreamConfig[] {
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

/** What the store says before the run; publishing that a crash left undone is made good on the way. */
async function recover(context: RunContext): Promise<Before> {
  const { database, layout, job } = context;
  const store = await SnapshotStore.open(database, layout);
  let before: Before;
  let committed: { runId: string; stream: string }[];
  try {
    const state = await store.state();
    const values = new Map<string, string[]>();
    for (const stream of job.streams) {
      const known = state.streams.get(stream.name);
      if (stream.source !== 'index_profiles' || stream.partitionBy?.values !== undefined || known === undefined)
        continue;
      const attribute = stream.partitionBy?.attribute;
      if (attribute !== undefined) values.set(stream.name, await distinctValues(store, known, 'attribute', attribute));
    }
    const folders = await runFolders(layout);
    const runs = await store.session.rows(
      `SELECT run_id, stream FROM ${storeTable('streams', 'cdsync')} WHERE list_contains(${sqlTexts(folders)}::VARCHAR[], run_id)`,
    );
    committed = runs.map(({ run_id, stream }) => ({ runId: String(run_id), stream: String(stream) }));
    const [version] = await store.session.rows('SELECT version() AS version');
    before = {
      ...state,
      values,
      committed: new Set(committed.map(({ runId }) => runId)),
      duckdbVersion: String(version?.version),
    };
  } finally {
    await store.close();
  }
  await publish(layout, before, publishOptions(context));
  // What has been committed is never gone on from: its records would be taken for newly read ones.
  for (const { runId, stream } of committed) await discardStream(layout, runId, stream);
  return before;
}

function publishOptions({ job }: RunContext) {
  return { duckdb: job.publish.duckdb, mode: job.publish.mode, keepSnapshots: keptSnapshots };
}

/** The run that goes on: an earlier one that has committed nothing, or a new one that takes over its parts. */
async function chooseRun(context: RunContext, opened: readonly OpenedStream[], before: Before): Promise<RunIdentity> {
  const unfinished = opened.flatMap(({ unfinished: found }) => (found === undefined ? [] : [found.run]));
  const newest = unfinished.sort((a, b) => (a.runId < b.runId ? 1 : -1))[0];
  if (newest !== undefined && !before.committed.has(newest.runId)) return newest;
  return createRun(context.layout, context.clock.now());
}

/** Removes what no later run can go on from. */
async function cleanUp({ layout, only }: RunContext, streams: readonly StreamRun[], run: RunIdentity): Promise<void> {
  for (const { name, commit, outcome } of streams) {
    const committed = commit !== undefined && outcome.error === undefined;
    if (committed || startAnew.has(outcome.error?.code ?? '')) await discardStream(layout, run.runId, name);
  }
  // Where a stream was not looked at, an earlier run's folder may still hold its checkpoint.
  const all = only === undefined && streams.every(({ opened }) => opened !== undefined);
  for (const runId of await runFolders(layout)) {
    if (runId === run.runId ? !(await hasStreams(layout, runId)) : all) await discardRun(layout, runId);
  }
}

/** One stream's way through the run. */
class StreamRun {
  readonly outcome: StreamOutcome;
  opened: OpenedStream | undefined;
  extraction: StreamExtraction | undefined;
  commit: StreamCommit | undefined;
  readonly #context: RunContext;

  constructor(context: RunContext, config: StreamConfig) {
    this.#context = context;
    this.outcome = { name: config.name, error: undefined, counters: undefined, commit: undefined };
  }

  get name(): string {
    return this.outcome.name;
  }

  get #progress() {
    return this.#context.progress.streams.find(({ name }) => name === this.name);
  }

  async attempt(phase: 'reading' | 'comparing', work: () => Promise<void>): Promise<void> {
    if (this.outcome.error !== undefined) return;
    const progress = this.#progress;
    if (progress !== undefined) progress.phase = phase;
    try {
      await work();
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      error.stream ??= this.name;
      this.outcome.error = error;
      if (progress !== undefined) progress.phase = 'failed';
    } finally {
      this.outcome.counters = this.extraction?.counters() ?? this.outcome.counters;
    }
  }

  open(config: StreamConfig): Promise<void> {
    const spent = { ...noCounters };
    this.outcome.counters = spent;
    return this.attempt('reading', async () => {
      this.opened = await openStream(this.#context, config, spent);
    });
  }

  read(run: RunIdentity, before: Before): Promise<void> {
    return this.attempt('reading', async () => {
      const { opened } = this;
      if (opened === undefined) return;
      const previous = before.streams.get(this.name);
      const lastValues = before.values.get(this.name) ?? [];
      this.extraction = await beginReading(this.#context, { opened, run, previous, lastValues });
      const progress = this.#progress;
      if (progress !== undefined) {
        progress.live = this.extraction.live;
        progress.expectedRows = previous?.rows;
        progress.resumed = this.extraction.resumed;
      }
      await this.extraction.read();
      this.outcome.seconds = this.extraction.counters().milliseconds / 1000;
    });
  }

  compare(run: RunIdentity, before: Before, store: SnapshotStore): Promise<void> {
    return this.attempt('comparing', async () => {
      const { opened, extraction } = this;
      if (opened === undefined || extraction === undefined) return;
      this.commit = await compareStream({
        job: this.#context.job,
        config: opened.config,
        source: opened.source,
        extraction,
        previous: before.streams.get(this.name),
        store,
        client: this.#context.client,
        signal: this.#context.signal,
        concurrency: this.#context.config.service.concurrency,
        hashVersion: hashVersion(before.duckdbVersion),
        runId: run.runId,
        startedAt: run.startedAt,
        folder: this.#context.layout.streamRun(run.runId, this.name),
      });
      this.outcome.commit = this.commit;
    });
  }

  async close(): Promise<void> {
    await this.extraction?.close();
  }
}

function statusOf(streams: readonly StreamRun[], interrupted: boolean): RunStatus {
  const failed = streams.filter(({ outcome }) => outcome.error !== undefined).length;
  if (interrupted) return 'interrupted';
  if (failed === 0) return 'ok';
  return failed === streams.length ? 'failed' : 'partial';
}

/** From the last page to the published files; the streams that could be read are committed together. */
async function finish(
  context: RunContext,
  streams: readonly StreamRun[],
  run: RunIdentity,
  before: Before,
): Promise<number> {
  const { database, layout, progress, clock } = context;
  const store = await SnapshotStore.open(database, layout);
  let sequence = before.sequence;
  let state: StoreState;
  try {
    for (const stream of streams) await stream.compare(run, before, store);
    const commits = streams.flatMap(({ commit, outcome }) =>
      commit === undefined || outcome.error !== undefined ? [] : [commit],
    );
    if (commits.length > 0) {
      progress.phase = 'committing';
      sequence = await commitRun(store, {
        layout,
        runId: run.runId,
        startedAt: run.startedAt,
        finishedAt: new Date(clock.now()).toISOString(),
        status: statusOf(streams, false),
        sequence: before.sequence,
        streams: commits,
        parquet: context.job.parquet.enabled,
      });
    }
    state = await store.state();
  } finally {
    await store.close();
  }
  progress.phase = 'publishing';
  await publish(layout, state, publishOptions(context));
  return sequence;
}

async function runLocked(context: RunContext, lock: JobLock, configs: readonly StreamConfig[]): Promise<JobReport> {
  const { clock, layout, progress, database, signal } = context;
  const began = clock.monotonic();
  const before = await recover(context);
  const streams = configs.map((config) => new StreamRun(context, config));
  const limit = pLimit(streamsAtOnce);
  try {
    await Promise.all(streams.map((stream, index) => limit(() => stream.open(configs[index] as StreamConfig))));
    const run = await chooseRun(
      context,
      streams.flatMap(({ opened }) => (opened === undefined ? [] : [opened])),
      before,
    );
    const resumed = streams.some(({ opened }) => opened?.unfinished !== undefined);
    progress.runId = run.runId;
    await lock.describe({ started_at: run.startedAt, run_id: run.runId });
    await mkdir(layout.runTemporary(run.runId), { recursive: true, mode: 0o700 });
    await database.spillTo(layout.runTemporary(run.runId));
    progress.phase = 'reading';
    await Promise.all(streams.map((stream) => limit(() => stream.read(run, before))));
    let sequence = before.sequence;
    if (!signal.aborted) sequence = await finish(context, streams, run, before);
    for (const stream of streams) await stream.close();
    const interrupted = streams.some(({ outcome }) => outcome.error?.kind === 'interrupted');
    const status = statusOf(streams, interrupted);
    if (!interrupted) await cleanUp(context, streams, run);
    progress.phase = 'done';
    return reportJob({
      job: context.job.name,
      run,
      resumed,
      sequence: sequence === 0 ? null : sequence,
      status,
      seconds: (clock.monotonic() - began) / 1000,
      streams: streams.map(({ outcome }) => outcome),
    });
  } finally {
    for (const stream of streams) await stream.close().catch(() => undefined);
  }
}

/**
 * One run of a job, from the lock to the report. Streams that fail do not hinder the others.
 * @throws {CdsyncError} what stops the run as a whole: `locked`, `storage_newer`, `stream_not_found`, a full disk while committing
 */
export async function runJob(context: RunContext): Promise<JobReport> {
  const { database, layout, clock, job } = context;
  const configs = chosenStreams(context);
  await prepareStorage(layout, job.publish.mode);
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  try {
    const report = await runLocked(context, lock, configs);
    const document = { status: report.status, jobs: [report], error: null };
    await writeFileAtomically(layout.report(report.run_id), `${JSON.stringify(document, null, 1)}\n`).catch((error) => {
      // Where the run has failed already, on a full disk for example, its own report is the one to give.
      if (report.status === 'ok') throw error;
    });
    return report;
  } finally {
    await lock.release();
  }
}

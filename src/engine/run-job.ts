import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import pLimit from 'p-limit';
import type { StreamConfig } from '../config/config.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import type { JobReport, RunStatus } from '../core/run.js';
import { commitRun, type StreamCommit } from '../snapshot/commit.js';
import { type PublishOptions, publish } from '../snapshot/publish.js';
import {
  distinctValues,
  SnapshotStore,
  type StoreState,
  type StreamState,
  storedRows,
  storeTable,
} from '../snapshot/snapshot-store.js';
import { type Session, sqlText, sqlTexts } from '../store/duckdb.js';
import { writeFileAtomically } from '../store/durable.js';
import { JobLock } from '../store/job-lock.js';
import { noCounters } from '../store/journal.js';
import { hashVersion } from '../store/row-hash.js';
import { createRun, discardRun, discardStream, hasStreams, type RunIdentity } from '../store/run-state.js';
import { prepareStorage, runFolders } from '../store/storage.js';
import { windowedSource } from '../streams/open-source.js';
import { compareStream } from './compare-stream.js';
import { beginReading, type OpenedStream, openStream } from './read-stream.js';
import type { Reading } from './reading.js';
import { reportJob, type StreamOutcome } from './report-job.js';
import type { RunContext } from './run-context.js';
import { type OrderedStream, orderStreams } from './stream-order.js';
import { hideStreams, showStored, showStream } from './stream-views.js';

/** Streams read at once; each has its partitions beside. */
const streamsAtOnce = 4;

/** Failures by what was read: comparing it once more would only fail once more. */
const startAnew = new Set(['empty_answer', 'unbalanced']);

interface Before extends StoreState {
  /** Values of the partitioning attribute in the last snapshot, by stream. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  /** Keys of the stored records that may still change, by stream. */
  readonly unfinished: ReadonlyMap<string, readonly string[]>;
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
    const unfinished = new Map<string, string[]>();
    for (const stream of job.streams) {
      const known = state.streams.get(stream.name);
      if (known === undefined) continue;
      unfinished.set(stream.name, await unfinishedKeys(store, stream, known));
      const attribute = stream.source === 'index_profiles' ? stream.partitionBy : undefined;
      if (attribute === undefined || attribute.values !== undefined) continue;
      values.set(stream.name, await distinctValues(store, known, 'attribute', attribute.attribute));
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
      unfinished,
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

/** Keys of the records that have not ended, where a stream's records change until they have. */
async function unfinishedKeys(store: SnapshotStore, config: StreamConfig, state: StreamState): Promise<string[]> {
  const source = windowedSource(config);
  const [key] = state.key;
  if (source?.isUnfinished === undefined || key === undefined) return [];
  const found: string[] = [];
  for await (const record of storedRows(store, state, [key, ...(source.watched ?? [])])) {
    if (source.isUnfinished(record)) found.push(String(record[key]));
  }
  return found;
}

function publishOptions({ job, clock }: RunContext): PublishOptions {
  const { publish: published, keep } = job;
  const changesBefore = new Date(clock.now() - keep.changes).toISOString();
  return { duckdb: published.duckdb, mode: published.mode, keepSnapshots: keep.snapshots, changesBefore };
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
  reading: Reading | undefined;
  commit: StreamCommit | undefined;
  readonly #context: RunContext;
  readonly #config: StreamConfig;

  constructor(context: RunContext, config: StreamConfig) {
    this.#context = context;
    this.#config = config;
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
      this.outcome.counters = this.reading?.counters() ?? this.outcome.counters;
    }
  }

  open(before: Before, session: Session): Promise<void> {
    const meter = { ...noCounters };
    this.outcome.counters = meter;
    return this.attempt('reading', async () => {
      const previous = before.streams.get(this.name);
      this.opened = await openStream(this.#context, { config: this.#config, meter, previous, session });
    });
  }

  read(run: RunIdentity, before: Before, session: Session): Promise<void> {
    return this.attempt('reading', async () => {
      const { opened } = this;
      if (opened === undefined) return;
      const previous = before.streams.get(this.name);
      this.reading = await beginReading(this.#context, {
        opened,
        run,
        previous,
        lastValues: before.values.get(this.name) ?? [],
        unfinishedKeys: before.unfinished.get(this.name) ?? [],
        session,
      });
      const progress = this.#progress;
      if (progress !== undefined) {
        progress.live = this.reading.live;
        progress.expectedRows = previous?.rows;
        progress.resumed = this.reading.resumed;
      }
      await this.reading.read();
      this.outcome.seconds = this.reading.counters().milliseconds / 1000;
    });
  }

  compare(run: RunIdentity, before: Before, store: SnapshotStore): Promise<void> {
    return this.attempt('comparing', async () => {
      const { opened, reading } = this;
      if (opened === undefined || reading === undefined) return;
      this.commit = await compareStream({
        job: this.#context.job,
        config: opened.config,
        source: opened.source,
        reading,
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

  /** Fails the stream before it is opened. */
  fail(error: CdsyncError): Promise<void> {
    return this.attempt('reading', () => Promise.reject(error));
  }

  async close(): Promise<void> {
    await this.reading?.close();
  }
}

function statusOf(streams: readonly StreamRun[], interrupted: boolean): RunStatus {
  const failed = streams.filter(({ outcome }) => outcome.error !== undefined).length;
  if (interrupted) return 'interrupted';
  if (failed === 0) return 'ok';
  return failed === streams.length ? 'failed' : 'partial';
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
        if (needed?.commit !== undefined && needed.outcome.error === undefined) await showStream(store, needed.commit);
        else if (needed === undefined && stored !== undefined) await showStored(store, stored);
        else {
          await this.streams[index]?.fail(missingDependency(name, needed !== undefined));
          continue;
        }
        shown.add(name);
      }
    }
  }
}

function missingDependency(name: string, failed: boolean): CdsyncError {
  return new CdsyncError(
    failed ? `it needs stream "${name}", which failed` : `it needs stream "${name}", which has no snapshot yet`,
    { code: 'dependency', hint: failed ? `see the error of stream "${name}"` : `run it as well: --stream ${name}` },
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
  const commits = streams.flatMap(({ commit: made, outcome }) =>
    made === undefined || outcome.error !== undefined ? [] : [made],
  );
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
    await hideStreams(store);
    sequence = await commit(context, store, done, run, before);
    state = await store.state();
  } finally {
    await store.close();
  }
  progress.phase = 'publishing';
  await publish(layout, state, publishOptions(context));
  return sequence;
}

async function runLocked(context: RunContext, lock: JobLock, session: Session): Promise<JobReport> {
  const { clock, layout, progress, database } = context;
  const began = clock.monotonic();
  const ordered = await orderStreams(session, chosenStreams(context), context.job.streams);
  const before = await recover(context);
  const levels = ordered.map((level) => new Level(context, level));
  const streams = levels.flatMap((level) => level.streams);
  try {
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
    if (!interrupted) await cleanUp(context, streams, run);
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

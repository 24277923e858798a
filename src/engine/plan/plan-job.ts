import { dirname } from 'node:path';
import type { BeforeStep, StreamConfig } from '../../config/config.js';
import { asCdsyncError } from '../../core/errors.js';
import type { JobReport } from '../../core/run-report.js';
import type { ApiGroup } from '../../core/service-options.js';
import { sqlText } from '../../core/sql.js';
import { readManifest } from '../../snapshot/manifest.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Session } from '../../storage/duckdb.js';
import { heldStreams } from '../../storage/held.js';
import { isOwnerAlive, type LockOwner, lockOwner } from '../../storage/job-lock.js';
import { pastRuns } from '../../storage/reports.js';
import { checkStorage } from '../../storage/storage.js';
import { errorWithAuth } from '../report-job.js';
import { KnownColumns } from '../run/query-columns.js';
import { type PreviousState, readPreviousState } from '../run/recover.js';
import { bytesOf, diskNeed, measureSpace, type StreamSize } from '../run/require-space.js';
import { missingDependency } from '../run/stage.js';
import { chosenStreams, type OrderedStream, orderStreams } from '../run/stream-order.js';
import { showStored } from '../run/stream-views.js';
import type { RunContext } from '../run-context.js';
import { resumesRun } from '../workflow/before-run.js';
import { unfinishedWorkflow } from '../workflow/started-workflows.js';
import type { JobPlan, PlannedStream } from './job-plan.js';
import { contractNotes, repeatedReadings, unknownRequests } from './plan-notes.js';
import { type PlannedReading, planStream } from './plan-stream.js';
import { budgets, type Load, lastTime, pastRunsAsked, readingTime, streamTime } from './plan-time.js';
import type { StreamSample } from './sample-stream.js';

/** A stream while the plan is being made. */
interface Planned {
  readonly shown: PlannedStream;
  /** Undefined if the stream does not ask the service, or could not. */
  readonly reading: PlannedReading | undefined;
  /** Undefined if its requests are unknown. */
  readonly load?: Load | undefined;
  /** Streams that no run has read, and on which its requests depend. */
  readonly missing?: readonly string[];
}

/** Parquet compresses each column alone: to about this share of the same records compressed in one piece. */
const columnarShare = 0.6;

function sizeOf({ reading, shown }: Planned, previous: StreamState | undefined): StreamSize {
  const rows = reading?.records ?? shown.snapshot_rows ?? 0;
  const bytes = previous?.snapshot.reduce((sum, file) => sum + file.bytes, 0) ?? 0;
  const stored = previous?.snapshot.reduce((sum, file) => sum + file.rows, 0) ?? 0;
  const sample = reading?.sample;
  const parquetPerRow = stored > 0 ? bytes / stored : columnarShare * (sample?.compressedPerRecord ?? 0);
  const compared = sample?.compared ?? undefined;
  const changed = (compared?.new ?? 0) + (compared?.changed ?? 0);
  const seen = changed + (compared?.unchanged ?? 0);
  return {
    rows,
    stagedPerRow: sample?.bytesPerRecord ?? 0,
    parquetPerRow,
    changedShare: previous === undefined ? 1 : seen === 0 ? 0 : changed / seen,
    read: (reading?.resumes?.records ?? 0) * parquetPerRow,
  };
}

/** The disk space that a run would need, estimated from the last snapshot and the sample, and the free space. */
async function planDisk(
  context: RunContext,
  before: PreviousState | undefined,
  planned: readonly Planned[],
): Promise<JobPlan['disk']> {
  const { layout, job } = context;
  const sizes = planned.map((stream) => sizeOf(stream, before?.streams.get(stream.shown.name)));
  const rows = [...(before?.streams.values() ?? [])].reduce((sum, stream) => sum + stream.rows, 0);
  const store = { bytes: await bytesOf(layout.store), rows, publishes: job.publish.duckdb };
  const need = diskNeed(sizes, store);
  const { free, usable, isShort } = await measureSpace(context, chosenStreams(context), before);
  return { need, free, short: isShort ? 'refused' : usable < need.total ? 'perhaps' : 'no' };
}

/** Round trip to assume if no sample has measured one. */
const assumedRoundTripMs = 50;

interface PlanContext {
  readonly context: RunContext;
  readonly session: Session;
  readonly store: SnapshotStore | undefined;
  readonly before: PreviousState | undefined;
  /** The process that has the lock now. */
  readonly running: LockOwner | undefined;
  /** Reports of past runs. */
  readonly past: readonly JobReport[];
  readonly notes: string[];
  readonly columns: KnownColumns;
}

function sampled(sample: StreamSample | undefined, { contract }: StreamConfig): PlannedStream['sample'] {
  if (sample === undefined) return null;
  const { records, rejected, compared, columnsAdded, columnsWidened } = sample;
  return {
    records,
    rejected,
    new: compared?.new ?? null,
    changed: compared?.changed ?? null,
    unchanged: compared?.unchanged ?? null,
    columns_added: contract.columns === 'evolve' ? columnsAdded : [],
    columns_widened: contract.types === 'evolve' ? columnsWidened : [],
  };
}

function loadOf({ past }: PlanContext, stream: string, reading: PlannedReading): Load | undefined {
  const { chains, others, group, reads, resumes, sample } = reading;
  if (chains === null) return undefined;
  const requests = chains.reduce((sum, pages) => sum + pages, 0) + others;
  // A run that resumes another reads only the rest.
  const lastMs = resumes === null ? lastTime(stream, { reads, requests }, past) : undefined;
  return { group, requests, chains, roundTripMs: sample?.roundTripMs ?? assumedRoundTripMs, lastMs };
}

/** The plan of a stream before any request: its members that do not depend on the service. */
async function notYetRead({ context, before }: PlanContext, { config, needs }: OrderedStream): Promise<PlannedStream> {
  const { name, source, reads } = config;
  const held = (await heldStreams(context.layout, [name])).at(-1);
  const manifest = await readManifest(context.layout.manifest(name)).catch(() => undefined);
  return {
    name,
    source,
    reads: reads.open === undefined || needs.length > 0 ? 'query' : null,
    group: null,
    total: null,
    records: null,
    snapshot_rows: before?.streams.get(name)?.rows ?? manifest?.rows ?? null,
    chains: null,
    pages: null,
    requests: reads.open === undefined ? 0 : null,
    round_trip_ms: null,
    seconds: null,
    split: null,
    resumes: null,
    held: held === undefined ? null : { run_id: held.run_id, findings: held.findings },
    needs,
    sample: null,
    error: null,
  };
}

/** Makes the streams that this one needs visible to its query. @throws {CdsyncError} `dependency` if one has no snapshot */
async function supply({ store, before }: PlanContext, { needs }: OrderedStream, planned: readonly Planned[]) {
  for (const name of needs) {
    const stored = before?.streams.get(name);
    if (store !== undefined && stored !== undefined) await showStored(store, stored);
    else if (planned.some(({ shown }) => shown.name === name)) return false;
    else throw missingDependency(name, undefined);
  }
  return true;
}

async function planOne(plan: PlanContext, stream: OrderedStream, earlier: readonly Planned[]): Promise<Planned> {
  const { context, session, before, running, notes } = plan;
  const { config } = stream;
  const shown = await notYetRead(plan, stream);
  try {
    if (stream.error !== undefined) throw stream.error;
    await plan.columns.assertKnown(config, async ({ name }) => {
      const sample = earlier.find(({ shown }) => shown.name === name)?.reading?.sample;
      return before?.streams.has(name) ? (sample?.columns ?? before.streams.get(name)?.columns) : undefined;
    });
    if (!(await supply(plan, stream, earlier))) {
      const missing = stream.needs.filter((name) => !before?.streams.has(name));
      // A query makes no request.
      return { shown, reading: undefined, ...(config.reads.open !== undefined && { missing }) };
    }
    const planned = await planStream(context, { config, before, session, running: running?.run_id });
    if (planned === undefined) return { shown, reading: planned };
    const { group, reads, total, records, chains, resumes, sample, split } = planned;
    const load = loadOf(plan, config.name, planned);
    const read: PlannedStream = {
      ...shown,
      reads,
      group,
      total,
      records,
      chains: chains?.length ?? null,
      pages: chains?.reduce((sum, pages) => sum + pages, 0) ?? null,
      requests: load?.requests ?? null,
      round_trip_ms: sample === undefined ? null : Math.round(sample.roundTripMs * 10) / 10,
      seconds: load === undefined ? null : streamTime(load, sharedLimits(context).limits) / 1000,
      split: split === null ? null : { by: split.attributes, chains: split.chains.length, used: split.isUsed },
      resumes: resumes === null ? null : { run_id: resumes.runId, records: resumes.records, pages: resumes.pages },
      sample: sampled(sample, config),
    };
    if (sample !== undefined) notes.push(...contractNotes(config, sample));
    return { shown: read, reading: planned, load };
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    if (error.kind === 'interrupted') throw error;
    return { shown: { ...shown, error: errorWithAuth(error) }, reading: undefined };
  }
}

async function planWorkflows(context: RunContext): Promise<JobPlan['workflows']> {
  const { before } = context.job;
  const starts = before.length > 0 && !(await resumesRun(context));
  const planned = before.map(async ({ startWorkflow: { deadlineMs, ...request } }: BeforeStep, step) => ({
    config_id: request.configId,
    would_start: starts && (await unfinishedWorkflow(context, step, request)) === undefined,
    deadline_ms: deadlineMs,
  }));
  return Promise.all(planned);
}

/** The limits of each group, divided among the processes that share them now and the run that is planned. */
function sharedLimits({ client, config }: RunContext) {
  const others = (group: ApiGroup) => client.share(group)?.otherProcesses ?? 0;
  const { rateLimits } = config.service;
  const limit = (group: ApiGroup) => Math.max(1, Math.floor(rateLimits[group] / (1 + others(group))));
  return {
    others,
    limits: { profile: limit('profile'), management: limit('management'), realtime: limit('realtime') },
  };
}

async function planStages(plan: PlanContext, stages: readonly (readonly OrderedStream[])[]) {
  const planned: Planned[] = [];
  let milliseconds = 0;
  for (const stage of stages) {
    // One after the other: a plan must not use up the budget of a run.
    const streams: Planned[] = [];
    for (const stream of stage) streams.push(await planOne(plan, stream, planned));
    planned.push(...streams);
    const loads = streams.flatMap(({ load }) => load ?? []);
    milliseconds += readingTime(loads, sharedLimits(plan.context).limits);
  }
  return { planned, seconds: milliseconds / 1000 };
}

/** The published snapshot, if it can be opened. */
async function openSnapshot(context: RunContext, notes: string[]): Promise<SnapshotStore | undefined> {
  const { database, layout, job } = context;
  try {
    const store = await SnapshotStore.openPublished(database, layout);
    const hasRun = (await Promise.all(job.streams.map(({ name }) => readManifest(layout.manifest(name))))).some(
      Boolean,
    );
    if (store === undefined && hasRun) notes.push('no DuckDB file is published: nothing is compared with the snapshot');
    return store;
  } catch (error) {
    notes.push(`nothing is compared with the snapshot: ${asCdsyncError(error).message}`);
    return undefined;
  }
}

async function planWith(plan: PlanContext): Promise<JobPlan> {
  const { context, session, before, running, notes } = plan;
  const { job, config } = context;
  const configs = chosenStreams(context);
  await session.run(`SET file_search_path = ${sqlText(dirname(config.file))}`);
  const stages = await orderStreams(session, configs, job.streams);
  const { planned, seconds } = await planStages(plan, stages);
  const loads = planned.flatMap(({ load }) => load ?? []);
  const { limits, others } = sharedLimits(context);
  const places = new Map(configs.map(({ name }, index) => [name, index]));
  const streams = planned
    .map(({ shown }) => shown)
    .sort((a, b) => (places.get(a.name) ?? 0) - (places.get(b.name) ?? 0));
  const disk = await planDisk(context, before, planned);
  return {
    status: disk.short === 'refused' || streams.some(({ error }) => error !== null) ? 'failed' : 'ok',
    job: job.name,
    sequence: before === undefined || before.sequence === 0 ? null : before.sequence,
    running: running === undefined ? null : { run_id: running.run_id ?? null, pid: running.pid, host: running.host },
    workflows: await planWorkflows(context),
    streams,
    budgets: budgets(loads, limits).map((budget) => ({ ...budget, other_processes: others(budget.group) })),
    requests: loads.reduce((sum, { requests }) => sum + requests, 0),
    seconds,
    disk,
    notes: [
      ...notes,
      ...unknownRequests(planned.flatMap(({ shown, missing }) => (missing ? [{ name: shown.name, missing }] : []))),
      ...repeatedReadings(configs),
    ],
  };
}

/**
 * Estimates requests, time, space and changes of a run, with a few requests for each stream. It writes nothing, not even the storage
 * folder, and takes no lock: a run may be active.
 * @throws {CdsyncError} errors that would stop the whole run
 */
export async function planJob(context: RunContext): Promise<JobPlan> {
  const { layout, database } = context;
  await checkStorage(layout);
  await context.salts.define(database, context.job);
  const notes: string[] = [];
  const owner = await lockOwner(layout);
  const running = owner !== undefined && (await isOwnerAlive(owner)) ? owner : undefined;
  const store = await openSnapshot(context, notes);
  const session = store?.session ?? (await database.connect());
  try {
    const before = store === undefined ? undefined : (await readPreviousState(store, context)).before;
    const stored = async ({ name }: StreamConfig) => before?.streams.get(name)?.columns;
    const columns = new KnownColumns(session, context.job.streams, stored);
    const past = (await pastRuns(layout, pastRunsAsked)).map(({ report }) => report);
    return await planWith({ context, session, store, before, running, past, notes, columns });
  } finally {
    if (store === undefined) session.close();
    else await store.close();
  }
}

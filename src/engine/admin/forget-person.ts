import { join } from 'node:path';
import type { JobConfig } from '../../config/config.js';
import { statOrUndefined } from '../../core/durable.js';
import { asCdsyncError, CdsyncError, reworded } from '../../core/errors.js';
import { nameHint } from '../../core/suggestions.js';
import { eraseFromDestination } from '../../delivery/destination-status.js';
import { cleanCacheFiles } from '../../record-cache/cache-file.js';
import { eraseFromCache } from '../../snapshot/cache-update.js';
import { type Forgotten, forgetRows, identifyingValues } from '../../snapshot/forget.js';
import { SnapshotStore, type StoreState } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { DecisionLog, recordDecisions } from '../../storage/decisions.js';
import { addErasure, nextErasure } from '../../storage/erasures.js';
import { readHeld } from '../../storage/held.js';
import { JobLock } from '../../storage/job-lock.js';
import type { JobLayout } from '../../storage/layout.js';
import { createRun, discardStreams } from '../../storage/run-state.js';
import { prepareStorage, runFolders } from '../../storage/storage.js';
import { Salts } from '../column-rules.js';
import type { StorageEngine } from '../open-engine.js';
import { publishStore } from '../run/commit-and-publish.js';
import { recover } from '../run/recover.js';
import { eraseFromReports } from './erase-from-reports.js';
import { type ErasureDestination, erasureDestinations, type Receiver } from './erasure-destinations.js';
import { findCopies } from './find-copies.js';
import { absentKey, type FoundPeople, findPeople, hasStore, keyForms, rowKeys } from './find-person.js';
import { ledgerSources, ownKeys } from './ledgers.js';

/** The result of `cdsync forget` in one job: the erased rows, and where traces stay. It contains no key and no value. */
export interface ForgetResult {
  status: 'ok' | 'failed';
  job: string;
  run_id: string;
  sequence: number;
  /** Number of keys in the command. */
  keys: number;
  /** Rows of snapshots that were erased. */
  rows: number;
  /** Rows of changes and history that were erased. */
  history: number;
  /** Those of each stream; `configured`: whether the configuration still has it. */
  streams: { name: string; configured: boolean; rows: number; history: number }[];
  /** Number of texts that were searched for afterwards, in every file of the job. */
  searched: number;
  /** Files that still have one of them. */
  remains: string[];
  /** Private files that keep the keys in clear until every destination has erased the rows. */
  in_clear: string[];
  /** Other streams of the job that have rows with one of the keys. */
  also_in: string[];
  /** Each destination that may have the rows. `waiting`: the next delivery erases them; `remains` says where copies may stay. */
  destinations: ErasureDestination[];
}

interface ErasureTask {
  readonly layout: JobLayout;
  readonly job: JobConfig;
  readonly request: ForgetRequest;
  readonly places: readonly ErasureDestination[];
  /** The state before. */
  readonly before: StoreState;
  /** The streams to erase from, with the keys that their rows have. */
  readonly targets: readonly Target[];
}

interface Target {
  readonly state: StreamState;
  /** The keys that its rows have. */
  readonly keys: readonly string[];
  /** The texts by which they may have the requested keys, and which key each is. */
  readonly forms: ReadonlyMap<string, ReadonlySet<number>>;
}

/** The people to erase. */
export interface ForgetRequest {
  /** Undefined: from every stream of the store; a text of a key of several columns is enough then. */
  readonly stream: string | undefined;
  /** As the service gives them; a key of several columns as a JSON list of texts. */
  readonly keys: readonly string[];
  /** Whether to erase even if no row here has one of the keys. */
  readonly evenIfAbsent?: boolean;
  readonly reason?: string | undefined;
  /** The destinations that the configuration has, and the streams that each gets. */
  readonly destinations?: readonly Receiver[];
}

/** Erases keys from rejects and outboxes. It skips a destination that is being loaded: the search finds its copies. */
async function eraseFromDeliveries({ database, clock }: StorageEngine, { layout, targets, places }: ErasureTask) {
  const session = await database.connect();
  try {
    for (const { state, keys } of targets) {
      for (const { name, stream } of places) {
        if (stream !== state.stream || (await statOrUndefined(layout.delivery(name))) === undefined) continue;
        const at = new Date(clock.now()).toISOString();
        const lock = await JobLock.acquireDestination(database, layout, name, at).catch(() => undefined);
        if (lock === undefined) continue;
        const erasing = eraseFromDestination(session, layout, { destination: name, stream, keys });
        await erasing.finally(() => lock.release());
      }
    }
  } finally {
    session.close();
  }
}

/** The people of each stream of a store that an erasure is about. @throws {CdsyncError} `stream_not_found`, `not_published` */
export async function findInStreams(
  store: SnapshotStore,
  engine: Pick<StorageEngine, 'database'>,
  { layout, job }: { layout: JobLayout; job: JobConfig },
  { stream, keys: requested }: Pick<ForgetRequest, 'stream' | 'keys'>,
): Promise<{ state: StreamState; found: FoundPeople }[]> {
  const { streams } = await store.state();
  if (stream !== undefined) assertKnown(job, stream, [...streams.keys()]);
  const all: { state: StreamState; found: FoundPeople }[] = [];
  for (const state of streams.values()) {
    const sources = ledgerSources(job, streams, state.stream);
    if (stream !== undefined && ![state, ...sources].some((source) => source.stream === stream)) continue;
    const options = { requested, isPart: stream === undefined, sources };
    all.push({ state, found: await findPeople(store, { database: engine.database, layout, state }, options) });
  }
  return all;
}

function assertKnown({ name: job, streams }: JobConfig, stream: string, stored: readonly string[]): void {
  if (stored.includes(stream)) return;
  const knownNames = [...new Set([...streams.map(({ name }) => name), ...stored])];
  if (!knownNames.includes(stream))
    throw new CdsyncError(`job "${job}" has no stream "${stream}"`, {
      code: 'stream_not_found',
      hint: nameHint('its streams', stream, knownNames),
    });
  throw new CdsyncError(`stream "${stream}" has no snapshot yet`, {
    code: 'not_published',
    hint: 'there is nothing to forget',
  });
}

/** The streams to erase from. Of one that nothing has, the keys as the user wrote them. */
async function targetsOf(
  store: SnapshotStore,
  { database }: StorageEngine,
  place: { layout: JobLayout; job: JobConfig },
  request: ForgetRequest,
): Promise<Target[]> {
  const people = await findInStreams(store, { database }, place, request);
  const expected = [...(await store.state()).streams.values()].some(({ forgotten }) => forgotten === true);
  // A new log would hide that the one before is lost.
  const log = request.evenIfAbsent === true ? undefined : await DecisionLog.read(place.layout, { expected });
  const isMeant = log?.isUnfinished(request.keys) ?? true;
  const found = people.map((one) => one.found);
  // Everywhere means several jobs: the command looks for the people in all of them first.
  if (!isMeant && request.stream !== undefined) assertPresent(request, found);
  const targets: Target[] = [];
  for (const { state, found } of people) {
    const { forms } = await keyForms(store, database, state, request.keys);
    const isOther = request.stream !== state.stream && found.keys.size > 0;
    const wanted = isOther ? [] : rowKeys(forms, found, state, request);
    const isAsked = request.stream === undefined || request.stream === state.stream;
    const keys = [...new Set([...wanted, ...found.keys.keys()])];
    if (found.keys.size > 0 || (isMeant && isAsked)) targets.push({ state, forms, keys });
  }
  return targets;
}

/** @throws {CdsyncError} `key_not_found` if the streams have one of the keys nowhere */
export function assertPresent(
  { stream, keys }: Pick<ForgetRequest, 'stream' | 'keys'>,
  found: readonly FoundPeople[],
): void {
  const present = new Set(found.flatMap((people) => [...people.keys.values()].flatMap((asked) => [...asked])));
  const absent = keys.findIndex((_, index) => !present.has(index));
  if (absent >= 0) throw absentKey(stream ?? 'any stream', keys, absent);
}

/** Notes the erasure: from now on a run leaves the keys out, whatever becomes of this process. */
async function noteErasure({ clock }: StorageEngine, task: ErasureTask): Promise<number> {
  const { layout, request, targets, places } = task;
  const names = targets.map(({ state }) => state.stream);
  const erasure = await nextErasure(layout, names, clock.now());
  const formsOf = (key: string, index: number) => [
    ...new Set([
      key,
      ...targets.flatMap(({ forms }) => [...forms].flatMap(([form, asked]) => (asked.has(index) ? [form] : []))),
    ]),
  ];
  await recordDecisions(layout, clock.now(), (hash) => [
    {
      action: 'forget',
      erasure,
      ...(request.reason === undefined ? {} : { reason: request.reason }),
      keys: request.keys.map((key, index) => formsOf(key, index).map(hash)),
      everywhere: request.stream === undefined,
      streams: names.map((name) => ({ name })),
      places: places.map(({ name, stream, status }) => ({
        destination: name,
        stream,
        configured: status !== 'not_configured',
        ...(status === 'sends_no_deletes' ? { untold: true as const } : {}),
      })),
    },
  ]);
  for (const { state, keys } of targets) {
    const awaited = places.some(({ stream, status }) => stream === state.stream && status !== 'not_configured');
    await addErasure(layout, state.stream, awaited ? keys : null, erasure);
  }
  return erasure;
}

interface Erased {
  readonly runId: string;
  readonly forgotten: readonly Forgotten[];
  /** Of the people's rows. */
  readonly texts: readonly string[];
}

/** At most this number of texts is searched for in every file; keys are first. */
const maxTexts = 100;

/** Erases the rows from the store, publishes the remaining ones, and closes the store. */
async function eraseRows(engine: StorageEngine, store: SnapshotStore, task: ErasureTask): Promise<Erased> {
  const { database, clock } = engine;
  const { layout, job, targets, before } = task;
  const all = ownKeys(task);
  const texts = new Set(all);
  for (const { state, keys } of targets) {
    const most = maxTexts - texts.size;
    for (const text of await identifyingValues(store, state, { keys, most })) texts.add(text);
  }
  // Before the commit: after it, the same command would find no row with these keys, and erase nothing.
  await eraseFromDeliveries(engine, task);
  await eraseFromReports(layout, all);
  await discardReadings(task);
  const run = await createRun(layout, clock.now());
  const folderOf = (stream: string) => layout.streamRun(run.runId, stream);
  const common = {
    layout,
    runId: run.runId,
    sequence: before.sequence + 1,
    compression: job.parquet.compression,
    horizon: new Date(clock.now() - job.publish.history).toISOString(),
  };
  const forgotten = await forgetRows(
    store,
    targets.map(({ state, keys }) => ({
      ...common,
      state,
      keys,
      at: run.startedAt > state.synced_at ? run.startedAt : new Date(Date.parse(state.synced_at) + 1).toISOString(),
      folder: join(folderOf(state.stream), 'parts'),
    })),
  );
  const { id: storeId } = await store.state();
  await cleanCacheFiles(layout.knownFolder);
  for (const { state, keys } of targets) {
    const erasing = { stream: state.stream, keys, storeId, before: state.run_id, runId: run.runId };
    await eraseFromCache(store, layout, { ...erasing, folder: folderOf(state.stream) });
  }
  await publishStore({ database, layout, job, clock, notice: () => undefined }, store);
  await discardStreams(
    layout,
    run.runId,
    targets.map(({ state }) => state.stream),
  );
  return { runId: run.runId, forgotten, texts: [...texts].slice(0, maxTexts) };
}

/** Uncommitted readings may have the people too: the next run reads their streams again. */
async function discardReadings({ layout, job, targets, before, request }: ErasureTask): Promise<void> {
  // A row that a ledger would add may name the people in any column.
  const ledgers = [...before.streams.keys()].filter((name) =>
    ledgerSources(job, before.streams, name).some(({ stream }) => [undefined, stream].includes(request.stream)),
  );
  const touched = [...targets.map(({ state }) => state.stream), ...ledgers];
  for (const runId of await runFolders(layout)) {
    const discarded = new Set(touched);
    // Of a reading that was cut short, not every record has its key in a file.
    if (request.stream === undefined)
      for (const stream of before.streams.keys())
        if ((await readHeld(layout, runId, stream)) === undefined) discarded.add(stream);
    await discardStreams(layout, runId, [...discarded]);
  }
}

/**
 * Erases people from snapshots, changes, history, reports, caches and uncommitted readings of one job, and publishes the result. It removes
 * all Parquet files of earlier snapshots and changes of the streams that had them. Then it searches every file of the job for the erased
 * texts.
 * @returns undefined if no stream was named, and the job has nothing of the people
 * @throws {CdsyncError} `stream_not_found`, `not_published`, `locked`, `key_not_found`
 */
export function forget(
  engine: StorageEngine,
  job: JobConfig,
  request: ForgetRequest & { readonly stream: string },
): Promise<ForgetResult>;
export function forget(
  engine: StorageEngine,
  job: JobConfig,
  request: ForgetRequest,
): Promise<ForgetResult | undefined>;
export async function forget(
  engine: StorageEngine,
  job: JobConfig,
  request: ForgetRequest,
): Promise<ForgetResult | undefined> {
  const { database, clock, layoutOf } = engine;
  const layout = layoutOf(job.name);
  if (request.stream === undefined && !(await hasStore(layout))) return undefined;
  await prepareStorage(layout, job.publish.mode);
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  try {
    await new Salts().define(database, job);
    const before = await recover({ database, layout, job, clock, full: false, notice: () => undefined });
    const store = await SnapshotStore.open(database, layout);
    try {
      const targets = await targetsOf(store, engine, { layout, job }, request);
      if (targets.length === 0) return undefined;
      const names = targets.map(({ state }) => state.stream);
      const places = await erasureDestinations(layout, request.destinations ?? [], names);
      const task = { layout, job, request, places, before, targets };
      const erasure = await noteErasure(engine, task);
      const erased = await store.onFewThreads(() => eraseRows(engine, store, task));
      // Until then the erasure counts as unfinished, and a repetition searches too.
      const result = await resultOf(engine, task, erased).catch((thrown) => {
        const error = asCdsyncError(thrown);
        const message = `the rows are erased and published, but the search for copies failed: ${error.message}`;
        throw reworded(error, message, { ...error, cause: thrown });
      });
      await recordDecisions(layout, clock.now(), () => [
        {
          action: 'erased',
          erasure,
          run_id: erased.runId,
          streams: erased.forgotten.map(({ rows, history }, index) => ({ name: names[index] ?? '', rows, history })),
        },
      ]);
      return result;
    } finally {
      await store.close();
    }
  } finally {
    await lock.release();
  }
}

/** Searches every file of the job for the erased texts. */
async function resultOf(
  { database }: StorageEngine,
  task: ErasureTask,
  { runId, forgotten, texts }: Erased,
): Promise<ForgetResult> {
  const { job, request, places, before, targets } = task;
  const { searched, files, others } = await findCopies(database, task, texts);
  const inClear = (file: string) => file.startsWith('.cdsync/erasures/');
  const remains = files.filter((file) => !inClear(file));
  const sum = (of: (person: Forgotten) => number) => forgotten.reduce((total, one) => total + of(one), 0);
  return {
    status: remains.length === 0 ? 'ok' : 'failed',
    job: job.name,
    run_id: runId,
    sequence: before.sequence + 1,
    keys: request.keys.length,
    rows: sum(({ rows }) => rows),
    history: sum(({ history }) => history),
    streams: targets.map(({ state }, index) => ({
      name: state.stream,
      configured: job.streams.some(({ name }) => name === state.stream),
      rows: forgotten[index]?.rows ?? 0,
      history: forgotten[index]?.history ?? 0,
    })),
    searched,
    remains,
    in_clear: files.filter(inClear),
    also_in: others,
    destinations: [...places],
  };
}

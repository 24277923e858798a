import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { emptyShape } from '../../columns/column-shape.js';
import { maskedValueSql } from '../../columns/masked-value.js';
import type { JobConfig, StreamConfig } from '../../config/config.js';
import { statOrUndefined, writeFileAtomically } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { sqlText, sqlTexts } from '../../core/sql.js';
import { nameHint } from '../../core/suggestions.js';
import { eraseFromDestination } from '../../delivery/destination-status.js';
import { cleanCacheFiles } from '../../record-cache/cache-file.js';
import { eraseFromCache } from '../../snapshot/cache-update.js';
import { type Forgotten, forgetRows, identifyingValues, searchable } from '../../snapshot/forget.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Session } from '../../storage/duckdb.js';
import { addErasure } from '../../storage/erasures.js';
import { JobLock } from '../../storage/job-lock.js';
import type { JobLayout } from '../../storage/layout.js';
import { createRun, discardStreams, type RunIdentity } from '../../storage/run-state.js';
import { prepareStorage, runFolders } from '../../storage/storage.js';
import { rulesOf, Salts } from '../column-rules.js';
import type { StorageEngine } from '../open-engine.js';
import { publishStore } from '../run/commit-and-publish.js';
import { recover } from '../run/recover.js';
import { absentKey, filesWith, findKeys } from './find-value-files.js';

/** The result of `cdsync forget`: the number of erased rows, and the files that still have a copy. It contains no key and no value. */
export interface ForgetResult {
  status: 'ok' | 'failed';
  job: string;
  stream: string;
  run_id: string;
  sequence: number;
  /** Number of keys in the command. */
  keys: number;
  /** Rows of the snapshot that were erased. */
  rows: number;
  /** Rows of changes and history that were erased. */
  history: number;
  /** Number of texts that were searched for afterwards, in every file of the job. */
  searched: number;
  /** Files that still have one of them. */
  remains: string[];
  /** Streams of the job that have rows with one of the keys. */
  also_in: string[];
  /** Each destination of the stream. The next delivery erases the rows there; `remains` says where copies may stay. */
  destinations: { name: string; status: 'waiting'; remains: string | null }[];
}

/** The keys as rows have them. If the key column is hashed: the requested keys and their hashes. */
async function rowKeys(
  session: Session,
  config: StreamConfig,
  state: StreamState,
  { salts, requested }: { salts: Salts; requested: readonly string[] },
): Promise<string[]> {
  const [name] = state.key;
  const hash = state.key.length > 1 ? undefined : rulesOf(config, salts, undefined).of('envelope', name ?? '')?.hash;
  if (hash === undefined) return [...requested];
  const text = { type: 'VARCHAR', shape: emptyShape() };
  const rows = await session.rows(
    `SELECT ${maskedValueSql('key', text, { hash })} AS hashed FROM (SELECT unnest(${sqlTexts(requested)}) AS key)`,
  );
  return [...requested, ...rows.map(({ hashed }) => String(hashed))];
}

/** Members of a report whose sentences may name keys of rows. */
const sentences = new Set(['message', 'hint', 'why']);

/** A report without these keys. Its counts, ids and names stay, also those that contain the text of a key. */
export function withoutKeys(report: string, keys: readonly string[]): string {
  const erased = (text: string) =>
    keys.filter((key) => key !== '').reduce((rest, key) => rest.replaceAll(key, '[forgotten]'), text);
  try {
    const parsed: unknown = JSON.parse(report, (name, value: unknown) =>
      typeof value === 'string' && sentences.has(name) ? erased(value) : value,
    );
    return `${JSON.stringify(parsed, null, 1)}\n`;
  } catch {
    // No command reads such a file, but it may still name a key.
    return erased(report);
  }
}

/** Erases keys from reports: the messages of guards name some. */
async function eraseFromReports(layout: JobLayout, keys: readonly string[]): Promise<void> {
  for (const name of await readdir(layout.reports)) {
    if (!name.endsWith('.json')) continue;
    const path = join(layout.reports, name);
    const text = await readFile(path, 'utf8');
    const erased = withoutKeys(text, keys);
    if (erased !== text) await writeFileAtomically(path, erased);
  }
}

/** Erases keys from rejects and outboxes. It skips a destination that is being loaded: the search finds its copies. */
async function eraseFromDeliveries({ database, clock }: StorageEngine, task: ErasureTask, keys: readonly string[]) {
  const { layout, state, destinations } = task;
  const session = await database.connect();
  try {
    for (const destination of destinations) {
      if ((await statOrUndefined(layout.delivery(destination))) === undefined) continue;
      const at = new Date(clock.now()).toISOString();
      const lock = await JobLock.acquireDestination(database, layout, destination, at).catch(() => undefined);
      if (lock === undefined) continue;
      const own = { destination, stream: state.stream, keys };
      await eraseFromDestination(session, layout, own).finally(() => lock.release());
    }
  } finally {
    session.close();
  }
}

/** Other streams with rows that contain one of the keys. */
async function otherStreams(store: SnapshotStore, states: Iterable<StreamState>, own: string, keys: readonly string[]) {
  const found: string[] = [];
  for (const { stream } of states) {
    if (stream === own) continue;
    const has = keys
      .map((key) => `contains(to_json(_cdsync_row)::VARCHAR, ${sqlText(JSON.stringify(key))})`)
      .join(' OR ');
    if ((await store.session.number(`SELECT count(*) FROM ${storeTable(stream)} AS _cdsync_row WHERE ${has}`)) > 0)
      found.push(stream);
  }
  return found;
}

function configOf(job: JobConfig, stream: string): StreamConfig {
  const config = job.streams.find(({ name }) => name === stream);
  if (config !== undefined) return config;
  const known = job.streams.map(({ name }) => name);
  throw new CdsyncError(`job "${job.name}" has no stream "${stream}"`, {
    code: 'stream_not_found',
    hint: nameHint('its streams', stream, known),
  });
}

interface ErasureTask {
  readonly layout: JobLayout;
  readonly job: JobConfig;
  readonly config: StreamConfig;
  readonly state: StreamState;
  readonly requested: readonly string[];
  readonly salts: Salts;
  readonly destinations: readonly string[];
  /** Number of the previous commit. */
  readonly sequence: number;
}

/** An erasure, with the texts to search for afterwards and the streams that have the same keys. */
interface Erasure extends Forgotten {
  readonly run: RunIdentity;
  readonly texts: readonly string[];
  readonly others: readonly string[];
}

/** Erases the rows from the store, and publishes the remaining ones. */
async function eraseRows(engine: StorageEngine, task: ErasureTask): Promise<Erasure> {
  const { database, clock } = engine;
  const { layout, job, config, state, requested, salts } = task;
  const { stream } = state;
  const store = await SnapshotStore.open(database, layout);
  try {
    const keys = await rowKeys(store.session, config, state, { salts, requested });
    const texts = [...new Set([...keys, ...(await identifyingValues(store, state, keys))])];
    await addErasure(layout, stream, task.destinations.length > 0 ? keys : null, clock.now());
    // Before the commit: after it, the same command would find no row with these keys, and erase nothing.
    await eraseFromDeliveries(engine, task, keys);
    await eraseFromReports(layout, keys);
    // Uncommitted parts may contain the person too. The next run reads the stream again.
    for (const runId of await runFolders(layout)) await discardStreams(layout, runId, [stream]);
    const run = await createRun(layout, clock.now());
    const forgotten = await forgetRows(store, {
      layout,
      state,
      keys,
      runId: run.runId,
      at: run.startedAt > state.synced_at ? run.startedAt : new Date(Date.parse(state.synced_at) + 1).toISOString(),
      sequence: task.sequence + 1,
      folder: join(layout.streamRun(run.runId, stream), 'parts'),
      compression: job.parquet.compression,
      horizon: new Date(clock.now() - job.publish.history).toISOString(),
    });
    const { id: storeId, streams } = await store.state();
    const folder = layout.streamRun(run.runId, stream);
    await cleanCacheFiles(layout.knownFolder);
    await eraseFromCache(store, layout, { stream, keys, storeId, before: state.run_id, runId: run.runId, folder });
    const searched = await searchable(store, state, texts);
    const others = await otherStreams(store, streams.values(), stream, keys);
    await publishStore({ database, layout, job, clock, notice: () => undefined }, store);
    return { ...forgotten, run, texts: searched, others };
  } finally {
    await store.close();
  }
}

/** The rows to erase. */
interface ForgetOptions {
  readonly stream: string;
  /** As the service gives them; a key of several columns as a JSON list of texts. */
  readonly keys: readonly string[];
  /** Whether to erase even if no row here has one of the keys. */
  readonly evenIfAbsent?: boolean;
  /** The destinations that get the stream. */
  readonly destinations?: readonly { readonly name: string; readonly erasure?: string | undefined }[];
}

/** @throws {CdsyncError} `key_not_found` if the stream has one of the keys nowhere */
async function refuseAbsent(
  { database }: StorageEngine,
  task: Omit<ErasureTask, 'job' | 'sequence' | 'destinations'>,
): Promise<void> {
  const { layout, config, state, requested, salts } = task;
  const store = await SnapshotStore.open(database, layout);
  try {
    const forms = await Promise.all(
      requested.map((key) => rowKeys(store.session, config, state, { salts, requested: [key] })),
    );
    const found = await findKeys(store, layout, state, forms.flat());
    const absent = forms.findIndex((keys) => !keys.some((key) => found.has(key)));
    if (absent >= 0) throw absentKey(state.stream, requested, absent);
  } finally {
    await store.close();
  }
}

/**
 * Erases rows of a stream from snapshot, changes, history, reports and uncommitted readings, and publishes the result.
 * It removes all Parquet files of earlier snapshots and changes. Then it searches every file of the job for the erased
 * texts.
 * @throws {CdsyncError} `stream_not_found`, `not_published`, `locked`, `key_not_found`
 */
export async function forget(
  engine: StorageEngine,
  job: JobConfig,
  { stream, keys: requested, evenIfAbsent = false, destinations: receivers = [] }: ForgetOptions,
): Promise<ForgetResult> {
  const { database, clock, layoutOf } = engine;
  const config = configOf(job, stream);
  const destinations = receivers.map(({ name }) => name);
  const layout = layoutOf(job.name);
  await prepareStorage(layout, job.publish.mode);
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  const salts = new Salts();
  try {
    await salts.define(database, job);
    const before = await recover({ database, layout, job, clock, full: false, notice: () => undefined });
    const state = before.streams.get(stream);
    if (state === undefined) {
      throw new CdsyncError(`stream "${stream}" has no snapshot yet`, {
        code: 'not_published',
        hint: 'there is nothing to forget',
      });
    }
    const { sequence } = before;
    if (!evenIfAbsent) await refuseAbsent(engine, { layout, config, state, requested, salts });
    const erased = await eraseRows(engine, { layout, job, config, state, requested, salts, sequence, destinations });
    await discardStreams(layout, erased.run.runId, [stream]);
    const found = { job: job.name, stream, keys: requested.length, erased, sequence: sequence + 1 };
    return { ...(await search(engine, layout, found)), destinations: waiting(receivers) };
  } finally {
    await lock.release();
  }
}

function waiting(destinations: NonNullable<ForgetOptions['destinations']>): ForgetResult['destinations'] {
  return destinations.map(({ name, erasure = null }) => ({ name, status: 'waiting', remains: erasure }));
}

/** Searches every file of the job for the erased texts. */
async function search(
  { database }: StorageEngine,
  layout: JobLayout,
  { erased, ...known }: Pick<ForgetResult, 'job' | 'stream' | 'keys' | 'sequence'> & { erased: Erasure },
): Promise<Omit<ForgetResult, 'destinations'>> {
  const { run, rows, history, texts, others } = erased;
  const reader = await database.connect();
  // Streams share files: a search would find what another stream still has.
  const files = others.length > 0 ? [] : filesWith(reader, layout, texts);
  const remains = await Promise.resolve(files).finally(() => reader.close());
  return {
    status: remains.length === 0 ? 'ok' : 'failed',
    job: known.job,
    stream: known.stream,
    run_id: run.runId,
    sequence: known.sequence,
    keys: known.keys,
    rows,
    history,
    searched: texts.length,
    remains,
    also_in: [...others],
  };
}

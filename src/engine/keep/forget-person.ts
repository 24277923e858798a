import { open, readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { JobConfig, StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nearest } from '../../core/nearest.js';
import { sqlText, sqlTexts } from '../../core/sql.js';
import { emptyShape } from '../../rows/column-shape.js';
import { treated } from '../../rows/value-text.js';
import { compact, compactionReason } from '../../snapshot/compact.js';
import { forgetRows, tellingValues } from '../../snapshot/forget.js';
import { publish } from '../../snapshot/publish.js';
import { SnapshotStore, type StreamState, storeTable } from '../../snapshot/snapshot-store.js';
import type { Session } from '../../store/duckdb.js';
import { writeFileAtomically } from '../../store/durable.js';
import { JobLock } from '../../store/job-lock.js';
import type { JobLayout } from '../../store/layout.js';
import { createRun, discardRun, discardStream, hasStreams } from '../../store/run-state.js';
import { prepareStorage, runFolders } from '../../store/storage.js';
import { rulesOf, Salts } from '../column-rules.js';
import type { StorageEngine } from '../open-engine.js';
import { publishOptions, recover } from '../run/recover.js';

/** What `cdsync forget` did, and what it found afterwards; without a key or a value. */
export interface ForgetResult {
  status: 'ok' | 'failed';
  job: string;
  stream: string;
  run_id: string;
  sequence: number;
  /** Keys that were given. */
  keys: number;
  /** Rows of the snapshot that were erased. */
  rows: number;
  /** Rows of changes and history that were erased. */
  history: number;
  /** Texts that were looked for afterwards, in every file of the job. */
  searched: number;
  /** Files that still have one of them. */
  remains: string[];
  /** Streams of the job that have rows with one of the keys. */
  also_in: string[];
}

/** What is shorter may stand anywhere by chance. */
const leastTextBytes = 6;
const chunkBytes = 4 * 1024 * 1024;

/** The keys as rows have them: where the key is hashed, both what was given and its hash. */
async function rowKeys(
  session: Session,
  config: StreamConfig,
  state: StreamState,
  { salts, given }: { salts: Salts; given: readonly string[] },
): Promise<string[]> {
  const [name] = state.key;
  const hash = state.key.length > 1 ? undefined : rulesOf(config, salts, undefined).of('envelope', name ?? '')?.hash;
  if (hash === undefined) return [...given];
  const text = { type: 'VARCHAR', shape: emptyShape() };
  const rows = await session.rows(
    `SELECT ${treated('key', text, { hash })} AS hashed FROM (SELECT unnest(${sqlTexts(given)}) AS key)`,
  );
  return [...given, ...rows.map(({ hashed }) => String(hashed))];
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

async function holds(path: string, texts: readonly Buffer[]): Promise<boolean> {
  const overlap = Math.max(...texts.map(({ length }) => length));
  const chunk = Buffer.alloc(chunkBytes + overlap);
  const handle = await open(path, 'r');
  try {
    let kept = 0;
    for (;;) {
      const { bytesRead } = await handle.read(chunk, kept, chunkBytes);
      if (bytesRead === 0) return false;
      const filled = chunk.subarray(0, kept + bytesRead);
      if (texts.some((text) => filled.includes(text))) return true;
      kept = Math.min(overlap, filled.length);
      chunk.copyWithin(0, filled.length - kept, filled.length);
    }
  } finally {
    await handle.close();
  }
}

/** Compressed files hide their bytes, so that they are read as well. */
async function parquetHolds(session: Session, path: string, texts: readonly string[]): Promise<boolean> {
  const row = 'to_json(f)::VARCHAR';
  const found = texts.map((text) => `contains(${row}, ${sqlText(JSON.stringify(text).slice(1, -1))})`);
  return (
    (await session.number(`SELECT count(*) FROM read_parquet(${sqlText(path)}) AS f WHERE ${found.join(' OR ')}`)) > 0
  );
}

async function filesWith(session: Session, layout: JobLayout, texts: readonly string[]): Promise<string[]> {
  const searched = texts.filter((text) => Buffer.byteLength(text) >= leastTextBytes);
  if (searched.length === 0) return [];
  const bytes = searched.map((text) => Buffer.from(text));
  const found: string[] = [];
  for (const path of await filesBelow(layout.folder)) {
    const has =
      (await holds(path, bytes)) || (path.endsWith('.parquet') && (await parquetHolds(session, path, searched)));
    if (has) found.push(relative(layout.folder, path));
  }
  return found.sort();
}

/** Guards name keys in their messages, and reports keep those. */
async function eraseFromReports(layout: JobLayout, keys: readonly string[]): Promise<void> {
  for (const name of await readdir(layout.reports)) {
    if (!name.endsWith('.json')) continue;
    const path = join(layout.reports, name);
    const text = await readFile(path, 'utf8');
    const written = keys.filter((key) => key !== '').map((key) => JSON.stringify(key).slice(1, -1));
    const erased = written.reduce((rest, key) => rest.replaceAll(key, '[forgotten]'), text);
    if (erased !== text) await writeFileAtomically(path, erased);
  }
}

/** Other streams with rows that hold one of the keys. */
async function otherStreams(store: SnapshotStore, states: Iterable<StreamState>, own: string, keys: readonly string[]) {
  const found: string[] = [];
  for (const { stream } of states) {
    if (stream === own) continue;
    const has = keys.map((key) => `contains(to_json(f)::VARCHAR, ${sqlText(JSON.stringify(key))})`).join(' OR ');
    if ((await store.session.number(`SELECT count(*) FROM ${storeTable(stream)} AS f WHERE ${has}`)) > 0)
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
    kind: 'configuration',
    hint: `its streams: ${nearest(stream, known).join(', ') || known.join(', ')}`,
  });
}

/** What was read and not committed may have the person too; it is read again. */
async function discardReadings(layout: JobLayout, stream: string): Promise<void> {
  for (const runId of await runFolders(layout)) {
    await discardStream(layout, runId, stream);
    if (!(await hasStreams(layout, runId))) await discardRun(layout, runId);
  }
}

/**
 * Erases rows of a stream from snapshot, changes, history, reports and what was read but not committed, publishes the result,
 * and searches every file of the job for what it has erased. Earlier snapshots and changes that are kept as Parquet files are
 * removed as a whole.
 * @param keys as the service gives them; where several columns make the key, as a JSON list of texts
 * @throws {CdsyncError} `stream_not_found`, `not_published`, `locked`
 */
export async function forget(
  { database, clock, layoutOf }: StorageEngine,
  job: JobConfig,
  { stream, keys: given }: { stream: string; keys: readonly string[] },
): Promise<ForgetResult> {
  const config = configOf(job, stream);
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
    const run = await createRun(layout, clock.now());
    const store = await SnapshotStore.open(database, layout);
    const { session } = store;
    const work = async () => {
      const keys = await rowKeys(session, config, state, { salts, given });
      const texts = [...new Set([...keys, ...(await tellingValues(store, state, keys))])];
      const sequence = before.sequence + 1;
      const forgotten = await forgetRows(store, {
        layout,
        state,
        keys,
        runId: run.runId,
        at: run.startedAt > state.synced_at ? run.startedAt : new Date(Date.parse(state.synced_at) + 1).toISOString(),
        sequence,
        folder: join(layout.streamRun(run.runId, stream), 'parts'),
        compression: job.parquet.compression,
      });
      const after = await store.state();
      const others = await otherStreams(store, after.streams.values(), stream, keys);
      return { keys, texts, sequence, forgotten, after, others, reason: await compactionReason(store, after) };
    };
    const { keys, texts, sequence, forgotten, after, others, reason } = await work().finally(() => store.close());
    await compact(database, layout, { reason, sequence });
    await publish(database, layout, after, publishOptions({ job, clock }));
    await discardReadings(layout, stream);
    await eraseFromReports(layout, keys);
    const reader = await database.connect();
    // What another stream still has stands in the files that they share.
    const remains = others.length > 0 ? [] : await filesWith(reader, layout, texts).finally(() => reader.close());
    return {
      status: remains.length === 0 ? 'ok' : 'failed',
      job: job.name,
      stream,
      run_id: run.runId,
      sequence,
      keys: given.length,
      ...forgotten,
      searched: texts.length,
      remains,
      also_in: others,
    };
  } finally {
    await lock.release();
  }
}

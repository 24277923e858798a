import { readlink, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ColumnSet } from '../../columns/columns.js';
import type { JobConfig } from '../../config/config.js';
import { sha256OfFile, statOrUndefined } from '../../core/durable.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { entriesBelow } from '../../core/folders.js';
import { formatCount, formatCounted } from '../../core/quantities.js';
import { runIdPattern } from '../../core/run-report.js';
import { quoteIdentifier, sqlText } from '../../core/sql.js';
import { type Feed, readFeed } from '../../snapshot/feed.js';
import { rowSizesOf } from '../../snapshot/large-rows.js';
import { type Manifest, readManifest } from '../../snapshot/manifest.js';
import { manifestOf } from '../../snapshot/publish.js';
import { publishedLogs } from '../../snapshot/publish-database.js';
import { snapshotFilePattern, snapshotFolder } from '../../snapshot/snapshot-folder.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { assertOwnTables } from '../../snapshot/store-integrity.js';
import { internalSchema, keysTable, storeName, storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { addKeys, nameInReader, type ReadParquet, readWholeParquet } from '../../snapshot/verify-parquet.js';
import { damagedTables } from '../../storage/database-file.js';
import type { Database, Session } from '../../storage/duckdb.js';
import { withJobLock } from '../../storage/job-lock.js';
import type { JobLayout } from '../../storage/layout.js';
import { assertStoreOfPublished, formatProblem } from '../../storage/storage.js';
import { assertNoUntrustedLinks } from '../../storage/untrusted-links.js';
import type { StorageEngine } from '../open-engine.js';
import { summarizeTable, type TableSummary } from './table-summary.js';
import { brokenChanges, type RunChanges, verifyChangeFiles, verifyChangeRows } from './verify-changes.js';

/** A problem that `cdsync verify` found. */
interface Mismatch {
  readonly stream: string | null;
  /** Relative to the job's folder. */
  readonly file: string | null;
  readonly problem: string;
}

/** The result of `cdsync verify`. */
export interface Verification {
  readonly status: 'ok' | 'failed';
  readonly job: string;
  readonly sequence: number;
  readonly streams: readonly { name: string; rows: number; files: number; bytes: number }[];
  readonly mismatches: readonly Mismatch[];
}

class Mismatches {
  readonly list: Mismatch[] = [];
  readonly #layout: JobLayout;

  constructor(layout: JobLayout) {
    this.#layout = layout;
  }

  readonly add = (problem: string, at: { readonly stream?: string; readonly path: string }): void => {
    this.list.push({ stream: at.stream ?? null, file: relative(this.#layout.folder, at.path), problem });
  };
}

/** A stream as the store has it: what files and published tables are compared with. */
interface StoredStream {
  readonly state: StreamState;
  readonly summary: TableSummary;
  readonly changes: readonly RunChanges[];
}

const missingFile = 'the file is missing';

async function verifyFile(
  mismatches: Mismatches,
  path: string,
  wanted: Manifest['files'][number],
  state: StreamState,
): Promise<ReadParquet | undefined> {
  const at = { stream: state.stream, path };
  const size = (await stat(path).catch(() => undefined))?.size;
  if (size === undefined) {
    mismatches.add(missingFile, at);
    return undefined;
  }
  if (size !== wanted.bytes) mismatches.add(`${size} bytes; the manifest has ${wanted.bytes}`, at);
  if ((await sha256OfFile(path)) !== wanted.sha256) mismatches.add('its checksum is not that of the manifest', at);
  try {
    const read = await readWholeParquet(path, state.key);
    if (read.rows !== wanted.rows)
      mismatches.add(`${formatCounted(read.rows, 'row')}; the manifest has ${formatCount(wanted.rows)}`, at);
    const names = ColumnSet.restore(state.columns).list.map(({ name }) => name);
    if (read.columns.join('\0') !== names.map(nameInReader).join('\0'))
      mismatches.add('its columns are not those of the manifest', at);
    return read;
  } catch {
    mismatches.add('it cannot be read as Parquet', at);
    return undefined;
  }
}

async function verifyParquet(
  mismatches: Mismatches,
  layout: JobLayout,
  state: StreamState,
  summary: TableSummary,
): Promise<void> {
  const { stream } = state;
  const at = { stream, path: layout.manifest(stream) };
  let manifest: Manifest | undefined;
  try {
    manifest = await readManifest(layout.manifest(stream));
  } catch (error) {
    mismatches.add(asCdsyncError(error).message, at);
  }
  if (manifest === undefined) return mismatches.add('no readable manifest', at);
  if (!isDeepStrictEqual(manifest, manifestOf(state))) mismatches.add('it differs from the store', at);
  let [rows, keySum] = [0, 0];
  const values = new Map<string, number>();
  const names = ColumnSet.restore(state.columns).list.map(({ name }) => name);
  let isWhole = true;
  for (const file of manifest.files) {
    const read = await verifyFile(mismatches, join(layout.stream(stream), file.path), file, state);
    if (read === undefined) isWhole = false;
    rows += read?.rows ?? 0;
    keySum = addKeys(keySum, read?.keySum ?? 0);
    for (const [index, name] of names.entries()) values.set(name, (values.get(name) ?? 0) + (read?.values[index] ?? 0));
  }
  if (!isWhole) return undefined;
  if (rows !== summary.rows)
    mismatches.add(`its files have ${formatCounted(rows, 'row')}, the store has ${formatCount(summary.rows)}`, at);
  else if (keySum !== summary.keySum) mismatches.add('its files have other keys than the store', at);
  for (const [name, count] of summary.values) {
    if (values.get(name) === count) continue;
    mismatches.add(`column "${name}" has ${values.get(name) ?? 0} values in its files, ${count} in the store`, at);
  }
  return undefined;
}

/** A problem that no run repairs: cdsync removes only its own files. */
const unexpectedFile = 'a file that cdsync did not put there';

/**
 * Chooses how to repair a job. A full run writes all published files again from the store before it reads. It removes no unexpected
 * files, and cannot repair the store.
 */
export function remedyOf(
  layout: JobLayout,
  { mismatches }: Verification,
): 'full' | 'move' | 'move and full' | 'backup' | 'format' {
  const [store, format] = [layout.store, layout.format].map((path) => relative(layout.folder, path));
  if (mismatches.some(({ file }) => file === store)) return 'backup';
  // No command works on a folder with an unknown format.
  if (mismatches.some(({ file }) => file === format)) return 'format';
  const unexpected = mismatches.filter(
    ({ problem }) => problem === unexpectedFile || problem.endsWith(brokenChanges),
  ).length;
  if (unexpected === 0) return 'full';
  return unexpected === mismatches.length ? 'move' : 'move and full';
}

async function verifyCurrent(
  mismatches: Mismatches,
  layout: JobLayout,
  { stream, snapshot }: StreamState,
): Promise<void> {
  const path = layout.current(stream);
  const target = await readlink(path).catch(() => undefined);
  const folder = snapshotFolder(snapshot);
  // A bucket has no links.
  if (folder === undefined || target === folder || (target === undefined && layout.remoteFiles !== undefined)) return;
  mismatches.add(target === undefined ? 'the link is missing' : 'it does not point to the last snapshot', {
    stream,
    path,
  });
}

/** Compares the feed with the store. @returns the feed; undefined if it is missing or damaged */
async function verifyFeed(mismatches: Mismatches, layout: JobLayout, state: StreamState): Promise<Feed | undefined> {
  const { stream } = state;
  const at = { stream, path: layout.feed(stream) };
  const feed = await readFeed(layout, stream).catch(() => null);
  if (feed === null) {
    mismatches.add('it is damaged or was edited', at);
    return undefined;
  }
  if (feed === undefined) mismatches.add(missingFile, at);
  else if (feed.run_id !== state.run_id || feed.sequence !== state.sequence || feed.rows !== state.rows)
    mismatches.add('it differs from the store', at);
  return feed;
}

/** Finds files in a stream's folder that belong to no manifest and no commit. */
async function verifyUnexpected(mismatches: Mismatches, layout: JobLayout, state: StreamState): Promise<void> {
  const paths = new Set(state.snapshot.map(({ path }) => path));
  const folder = layout.stream(state.stream);
  const entries = await entriesBelow(folder).catch((error) => {
    if (error.code !== 'ENOENT')
      mismatches.add(`it cannot be read (${error.code})`, { stream: state.stream, path: folder });
    return [];
  });
  const current = new Set(state.snapshot.map(({ path }) => path.split('/')[1]));
  for (const entry of entries) {
    if (entry.isDirectory()) continue;
    const path = relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/');
    if (path === 'current' && entry.isSymbolicLink()) continue;
    const [kind, run = '', name = ''] = path.split('/');
    const isOurs =
      path === 'manifest.json' ||
      paths.has(path) ||
      (runIdPattern.test(run) &&
        snapshotFilePattern.test(name) &&
        (kind === 'changes' || (kind === 'snapshot' && !current.has(run))));
    if (!isOurs) mismatches.add(unexpectedFile, { stream: state.stream, path: join(folder, path) });
  }
}

async function verifyPublished(
  mismatches: Mismatches,
  { layout, database }: { layout: JobLayout; database: Database },
  streams: readonly StoredStream[],
): Promise<void> {
  for (const path of await publishedLogs(layout)) {
    if ((await statOrUndefined(path)) !== undefined)
      mismatches.add('another program has opened the file beside it for writing', { path });
  }
  if ((await stat(layout.link).catch(() => undefined)) === undefined)
    return mismatches.add('the link points to no file; the next run writes it again', {
      path: layout.link,
    });
  const session = await database.connect();
  try {
    await session.run(`ATTACH ${sqlText(layout.link)} AS published (READ_ONLY)`);
    await assertOwnTables({ session, path: layout.link, database: 'published' });
    const damaged = await damagedTables(session, 'published');
    for (const table of damaged) mismatches.add(`a block of ${table} is damaged`, { path: layout.link });
    for (const { state, summary: before } of damaged.length > 0 ? [] : streams) {
      const table = `published.${quoteIdentifier(state.stream)}`;
      const keys = `published.${internalSchema}.${quoteIdentifier(`keys_${state.stream}`)}`;
      const summary = await summarizeTable(session, state, { table, keys, together: before.together });
      const isSame =
        before.rows === summary.rows && before.hashes === summary.hashes && before.keySum === summary.keySum;
      if (!isSame)
        mismatches.add('the published rows are not those of the store', { stream: state.stream, path: layout.link });
      await verifyChangeRows(mismatches.add, { session, state, database: 'published', path: layout.link });
    }
    await session.run('DETACH published');
  } catch (error) {
    const { code, message } = asCdsyncError(error);
    const problem =
      code === 'storage_altered' ? `${message} [${code}]` : `the published file cannot be read whole [${code}]`;
    mismatches.add(problem, { path: layout.link });
  } finally {
    session.close();
  }
}

/**
 * Reads all stored and published files with DuckDB and with another Parquet reader, and compares the results with the manifests and
 * with each other. Changes nothing.
 * @throws {CdsyncError} `locked`, `not_published`, `state_unreadable`
 */
export async function verifyJob(engine: StorageEngine, job: JobConfig): Promise<Verification> {
  const layout = engine.layoutOf(job.name);
  await assertNoUntrustedLinks(layout);
  await assertStoreOfPublished(layout);
  await stat(layout.store).catch(() => {
    throw new CdsyncError(`job "${job.name}" has no snapshot to verify`, {
      code: 'not_published',
      hint: 'run it first: cdsync run',
    });
  });
  return withJobLock(engine, layout, () => verifyLocked(engine, job, layout));
}

async function verifyLocked(engine: StorageEngine, job: JobConfig, layout: JobLayout): Promise<Verification> {
  const { database } = engine;
  const mismatches = new Mismatches(layout);
  await verifyFormat(mismatches, layout);
  const { isWhole, sequence, streams } = await verifyStore(mismatches, layout, database);
  for (const stream of streams) await verifyFiles(mismatches, layout, stream);
  // Nothing can be compared with a store that is not whole.
  if (isWhole && job.publish.duckdb && sequence > 0) await verifyPublished(mismatches, { layout, database }, streams);
  if (isWhole) await verifyBucket(mismatches, layout);
  return {
    status: mismatches.list.length === 0 ? 'ok' : 'failed',
    job: job.name,
    sequence,
    streams: streams.map(({ state: { stream, rows, snapshot } }) => ({
      name: stream,
      rows,
      files: snapshot.length,
      bytes: snapshot.reduce((sum, { bytes }) => sum + bytes, 0),
    })),
    mismatches: mismatches.list,
  };
}

async function verifyFormat(mismatches: Mismatches, layout: JobLayout): Promise<void> {
  const problem = await formatProblem(layout);
  if (problem !== undefined) mismatches.add(problem, { path: layout.format });
}

/** @returns the streams that files and published tables can be compared with: none of a store that is not whole */
async function verifyStore(
  mismatches: Mismatches,
  layout: JobLayout,
  database: Database,
): Promise<{ isWhole: boolean; sequence: number; streams: readonly StoredStream[] }> {
  const store = await SnapshotStore.open(database, layout);
  try {
    const damaged = await damagedTables(store.session, storeName);
    for (const table of damaged) mismatches.add(`a block of ${table} is damaged`, { path: layout.store });
    if (damaged.length > 0) {
      const { sequence } = await store.state().catch(() => ({ sequence: 0 }));
      return { isWhole: false, sequence, streams: [] };
    }
    const { sequence, streams: states } = await store.state();
    const streams: StoredStream[] = [];
    for (const state of states.values()) streams.push(await verifyStored(mismatches, layout, store.session, state));
    return { isWhole: true, sequence, streams };
  } finally {
    await store.close();
  }
}

async function verifyStored(
  mismatches: Mismatches,
  layout: JobLayout,
  session: Session,
  state: StreamState,
): Promise<StoredStream> {
  const { stream, snapshot, rows } = state;
  const at = { stream, path: layout.store };
  const files = snapshot.map(({ path }) => join(layout.stream(stream), path));
  // The comparison of the files reports a damaged one.
  const sizes = await rowSizesOf(session, files).catch(() => undefined);
  const tables = { table: storeTable(stream), keys: keysTable(stream), together: sizes?.together };
  const summary = await summarizeTable(session, state, tables);
  const changes = await verifyChangeRows(mismatches.add, { session, state, database: storeName, path: layout.store });
  if (summary.rows !== rows)
    mismatches.add(`${formatCounted(summary.rows, 'row')} in the store; its own count is ${formatCount(rows)}`, at);
  if (summary.keptHashes !== undefined && summary.trackedHashes !== summary.keptHashes)
    mismatches.add('the rows in the store do not match their stored hashes', at);
  return { state, summary, changes };
}

async function verifyFiles(mismatches: Mismatches, layout: JobLayout, stored: StoredStream): Promise<void> {
  const { state, summary, changes: runs } = stored;
  if (state.snapshot.length === 0) return;
  await verifyParquet(mismatches, layout, state, summary);
  const feed = await verifyFeed(mismatches, layout, state);
  await verifyChangeFiles(mismatches.add, { layout, state, runs, feed });
  await verifyCurrent(mismatches, layout, state);
  await verifyUnexpected(mismatches, layout, state);
}

async function verifyBucket(mismatches: Mismatches, { folder, remoteFiles }: JobLayout): Promise<void> {
  for await (const path of remoteFiles?.alteredCopies() ?? [])
    mismatches.add('another program altered it in the bucket', { path: join(folder, path) });
}

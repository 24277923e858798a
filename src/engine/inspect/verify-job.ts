import { readlink, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ColumnSet, holdNegativeZero } from '../../columns/columns.js';
import { hashVersion } from '../../columns/row-hash.js';
import type { JobConfig } from '../../config/config.js';
import { sha256OfFile, statOrUndefined } from '../../core/durable.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { entriesBelow } from '../../core/folders.js';
import { formatCount, formatCounted } from '../../core/quantities.js';
import { runIdPattern } from '../../core/run-report.js';
import { quoteIdentifier, sqlText } from '../../core/sql.js';
import { type Feed, readFeed } from '../../snapshot/feed.js';
import { hashesOf, rowSizesOf } from '../../snapshot/large-rows.js';
import { type Manifest, readManifest } from '../../snapshot/manifest.js';
import { manifestOf } from '../../snapshot/publish.js';
import { publishedLogs } from '../../snapshot/publish-database.js';
import { snapshotFilePattern, snapshotFolder } from '../../snapshot/snapshot-folder.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { assertOwnTables } from '../../snapshot/store-integrity.js';
import { internalSchema, keysTable, storeName, storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { addKeys, keyHash, nameInReader, type ReadParquet, readWholeParquet } from '../../snapshot/verify-parquet.js';
import { damagedTables } from '../../storage/database-file.js';
import type { Database, Session } from '../../storage/duckdb.js';
import { withJobLock } from '../../storage/job-lock.js';
import type { JobLayout } from '../../storage/layout.js';
import { assertStoreOfPublished, formatProblem } from '../../storage/storage.js';
import { assertNoUntrustedLinks } from '../../storage/untrusted-links.js';
import type { StorageEngine } from '../open-engine.js';
import {
  type AddProblem,
  brokenChanges,
  type RunChanges,
  verifyChangeFiles,
  verifyChangeRows,
} from './verify-changes.js';

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

  add(problem: string, at: { stream?: string; path?: string } = {}): void {
    const file = at.path === undefined ? null : relative(this.#layout.folder, at.path);
    this.list.push({ stream: at.stream ?? null, file, problem });
  }
}

/** Counts and hashes of a table, computed by DuckDB. */
interface TableSummary {
  readonly rows: number;
  readonly values: ReadonlyMap<string, number>;
  readonly keySum: number;
  /** XOR of the rows' hashes, computed now from all columns. */
  readonly hashes: string;
  /** XOR of the hashes of tracked columns alone. */
  readonly trackedHashes: string;
  /** XOR of the stored hashes; undefined if another version computed them. */
  readonly keptHashes: string | undefined;
  /** Of {@link rowSizesOf}. */
  readonly together: number | undefined;
}

async function summarizeTable(
  session: Session,
  state: StreamState,
  { table, keys, together }: { table: string; keys: string; together: number | undefined },
): Promise<TableSummary> {
  const { list } = ColumnSet.restore(state.columns);
  // Columns that are not tracked are compared too.
  const all = list.map(({ name, type, form }) => ({ name, type, form }));
  const valueCounts = list.map(({ name }, index) => `count(${quoteIdentifier(name)}) AS c${index}`);
  const isPartly = list.some(({ untracked }) => untracked);
  const [counts] = await session.rows(`SELECT count(*) AS rows, ${valueCounts.join(', ')} FROM ${table}`);
  const rows = { table, together };
  const hashes = await hashesOf(session, rows, all);
  const [kept] = await session.rows(`SELECT bit_xor(hash)::VARCHAR AS hashes, version() AS version FROM ${keys}`);
  // DuckDB loses the sign of zero in a block of zeros alone; the stored hashes still have it.
  const isComparable = state.hash_version === hashVersion(String(kept?.version)) && !holdNegativeZero(state.columns);
  let keySum = 0;
  const texts = state.key.map((name) => {
    const { type } = list.find((column) => column.name === name) ?? { type: '' };
    const value = quoteIdentifier(name);
    return /^(TIMESTAMP|DATE)/.test(type) ? `epoch_ms(${value})::VARCHAR` : `${value}::VARCHAR`;
  });
  for await (const row of session.stream(`SELECT [${texts.join(', ')}]::VARCHAR[] AS key FROM ${table}`)) {
    const parts = (row.key as { items?: unknown[] } | null)?.items ?? [];
    keySum = addKeys(keySum, keyHash(parts.length === 1 ? String(parts[0]) : JSON.stringify(parts)));
  }
  return {
    rows: Number(counts?.rows),
    values: new Map(list.map(({ name }, index) => [name, Number(counts?.[`c${index}`])])),
    keySum,
    hashes,
    trackedHashes: isPartly ? await hashesOf(session, rows, list) : hashes,
    keptHashes: isComparable ? String(kept?.hashes ?? '0') : undefined,
    together,
  };
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
  states: readonly StreamState[],
  stored: ReadonlyMap<string, TableSummary>,
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
    for (const state of damaged.length > 0 ? [] : states) {
      const table = `published.${quoteIdentifier(state.stream)}`;
      const keys = `published.${internalSchema}.${quoteIdentifier(`keys_${state.stream}`)}`;
      const before = stored.get(state.stream);
      const summary = await summarizeTable(session, state, { table, keys, together: before?.together });
      const isSame =
        before?.rows === summary.rows && before.hashes === summary.hashes && before.keySum === summary.keySum;
      if (!isSame)
        mismatches.add('the published rows are not those of the store', { stream: state.stream, path: layout.link });
      const add: AddProblem = (problem, at) => mismatches.add(problem, at);
      await verifyChangeRows(add, { session, state, database: 'published', path: layout.link });
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
  const mismatches = new Mismatches(layout);
  const store = await SnapshotStore.open(engine.database, layout);
  const stored = new Map<string, TableSummary>();
  const changes = new Map<string, readonly RunChanges[]>();
  const add: AddProblem = (problem, at) => mismatches.add(problem, at);
  const badFormat = await formatProblem(layout);
  if (badFormat !== undefined) mismatches.add(badFormat, { path: layout.format });
  let states: StreamState[];
  let sequence: number;
  try {
    const damaged = await damagedTables(store.session, storeName);
    for (const table of damaged) mismatches.add(`a block of ${table} is damaged`, { path: layout.store });
    if (damaged.length > 0) {
      // Nothing can be compared with a store that is not whole.
      const { sequence } = await store.state().catch(() => ({ sequence: 0 }));
      return { status: 'failed', job: job.name, sequence, streams: [], mismatches: mismatches.list };
    }
    const state = await store.state();
    states = [...state.streams.values()];
    sequence = state.sequence;
    for (const state of states) {
      const { stream } = state;
      const files = state.snapshot.map(({ path }) => join(layout.stream(stream), path));
      // The comparison of the files reports a damaged one.
      const sizes = await rowSizesOf(store.session, files).catch(() => undefined);
      const tables = { table: storeTable(stream), keys: keysTable(stream) };
      const summary = await summarizeTable(store.session, state, { ...tables, together: sizes?.together });
      stored.set(stream, summary);
      const at = { stream, path: layout.store };
      const rowsOf = { session: store.session, state, database: storeName, path: layout.store };
      changes.set(stream, await verifyChangeRows(add, rowsOf));
      if (summary.rows !== state.rows)
        mismatches.add(
          `${formatCounted(summary.rows, 'row')} in the store; its own count is ${formatCount(state.rows)}`,
          at,
        );
      if (summary.keptHashes !== undefined && summary.trackedHashes !== summary.keptHashes)
        mismatches.add('the rows in the store do not match their stored hashes', at);
    }
  } finally {
    await store.close();
  }
  for (const state of states) {
    const summary = stored.get(state.stream);
    if (state.snapshot.length === 0 || summary === undefined) continue;
    await verifyParquet(mismatches, layout, state, summary);
    const feed = await verifyFeed(mismatches, layout, state);
    await verifyChangeFiles(add, { layout, state, runs: changes.get(state.stream) ?? [], feed });
    await verifyCurrent(mismatches, layout, state);
    await verifyUnexpected(mismatches, layout, state);
  }
  if (job.publish.duckdb && sequence > 0) {
    await verifyPublished(mismatches, { layout, database: engine.database }, states, stored);
  }
  for await (const path of layout.remoteFiles?.alteredCopies() ?? [])
    mismatches.add('another program altered it in the bucket', { path: join(layout.folder, path) });
  return {
    status: mismatches.list.length === 0 ? 'ok' : 'failed',
    job: job.name,
    sequence,
    streams: states.map(({ stream, rows, snapshot }) => ({
      name: stream,
      rows,
      files: snapshot.length,
      bytes: snapshot.reduce((sum, { bytes }) => sum + bytes, 0),
    })),
    mismatches: mismatches.list,
  };
}

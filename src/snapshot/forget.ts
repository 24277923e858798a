import { copyFile, link, mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { ColumnSet, holdNegativeZero } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { sha256OfFile } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { fileText, quoteIdentifier, sqlText, sqlTexts } from '../core/sql.js';
import type { JobLayout } from '../storage/layout.js';
import { type ParquetCompression, writeParquet } from '../storage/parquet.js';
import { nextCommitTime, recordCommitTime } from './history.js';
import { rewriteChanges } from './rewrite-changes.js';
import { snapshotFileName } from './snapshot-folder.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, changesTable, keysTable, storeTable } from './store-tables.js';
import type { CommittedFile, StreamState } from './stream-state.js';

interface ForgetTask {
  readonly layout: JobLayout;
  readonly state: StreamState;
  /** Keys in the form that the stream's rows have. */
  readonly keys: readonly string[];
  readonly runId: string;
  /** ISO 8601; later than the previous snapshot. */
  readonly at: string;
  /** Of the new snapshot. */
  readonly sequence: number;
  /** The private folder for new files. */
  readonly folder: string;
  readonly compression: ParquetCompression;
  /** Changes before this time may be gone from the store: ISO 8601. */
  readonly horizon: string;
}

/** How much was erased. */
export interface Forgotten {
  /** Rows of the snapshot. */
  readonly rows: number;
  /** Rows of the table of changes and of the earlier table. */
  readonly history: number;
}

/** Texts that only these rows have, of at least 6 characters: a search for them shows whether a file still has data of the person. */
export async function identifyingValues(
  { session }: SnapshotStore,
  { stream, key, columns }: StreamState,
  keys: readonly string[],
): Promise<string[]> {
  const table = storeTable(stream);
  const own = `${rowKey(key)} IN (SELECT unnest(${sqlTexts(keys)}))`;
  const found = new Set<string>();
  for (const { name, type } of ColumnSet.restore(columns).list) {
    if (type !== 'VARCHAR') continue;
    const value = quoteIdentifier(name);
    const rows = await session.rows(
      `SELECT DISTINCT ${value} AS value FROM ${table} WHERE ${own} AND length(${value}) >= 6
         AND ${value} NOT IN (SELECT ${value} FROM ${table} WHERE NOT (${own}) AND ${value} IS NOT NULL)`,
    );
    for (const row of rows) found.add(String(row.value));
  }
  return [...found];
}

/**
 * The texts by which a search finds that a file still has values of erased rows. One that rows of others have as a part of a longer
 * text proves nothing: `member-1` is in `member-10`.
 */
export async function searchable(
  { session }: SnapshotStore,
  state: StreamState,
  texts: readonly string[],
): Promise<string[]> {
  if (texts.length === 0) return [];
  const tables = [storeTable(state.stream), changesTable(state.stream), beforeTable(state.stream)];
  const left = tables
    .map((table) => `SELECT to_json(_cdsync_row)::VARCHAR AS row FROM ${table} AS _cdsync_row`)
    .join(' UNION ALL ');
  const counts = texts.map((text, index) => {
    const written = JSON.stringify(text);
    const isPart = `contains(row, ${sqlText(written.slice(1, -1))})`;
    return `bool_or(${isPart}) AND NOT bool_or(contains(row, ${sqlText(written)})) AS part_${index}`;
  });
  const [found] = await session.rows(`SELECT ${counts.join(', ')} FROM (${left})`);
  return texts.filter((_, index) => found?.[`part_${index}`] !== true);
}

/** The files of the snapshot without the rows. A file that has none of them is linked as it is. */
async function filesWithout(store: SnapshotStore, task: ForgetTask): Promise<CommittedFile[]> {
  const { layout, state, keys, runId, folder, compression } = task;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files: CommittedFile[] = [];
  for (const [index, file] of state.snapshot.entries()) {
    const name = snapshotFileName(runId, index, state.snapshot.length === 1);
    const [source, target] = [join(layout.stream(state.stream), file.path), join(folder, name)];
    if ((await sha256OfFile(source)) !== file.sha256)
      throw new CdsyncError(`${source} is damaged: its checksum is not that of the commit`, {
        code: 'snapshot_incomplete',
        hint: 'cdsync run --full writes it again from the store; then forget once more',
      });
    const common = { path: `snapshot/${runId}/${name}`, from: relative(layout.folder, target) };
    const rows = `FROM read_parquet(${fileText(source)})`;
    const own = `${rowKey(state.key)} IN (SELECT unnest(${sqlTexts(keys)}))`;
    const has = await store.session.number(`SELECT count(*) ${rows} WHERE ${own}`);
    if (has === 0) {
      await link(source, target).catch(() => copyFile(source, target));
      files.push({ ...file, ...common });
      continue;
    }
    const query = `SELECT * ${rows} WHERE NOT (${own})`;
    const {
      rows: left,
      bytes,
      sha256,
    } = await writeParquet(store.session, query, target, {
      compression,
      keepsZeroSigns: holdNegativeZero(state.columns),
    });
    if (left > 0 || state.snapshot.length === 1) files.push({ ...common, rows: left, bytes, sha256 });
  }
  return files;
}

async function erase({ session }: SnapshotStore, { state, keys }: ForgetTask): Promise<Forgotten> {
  const { stream, key } = state;
  const list = `(SELECT unnest(${sqlTexts(keys)}))`;
  const own = `${rowKey(key)} IN ${list}`;
  const count = (rows: string) => session.number(`SELECT count(*) FROM ${rows}`);
  const rows = await count(`${storeTable(stream)} WHERE ${own}`);
  const past = [changesTable(stream), beforeTable(stream)];
  let history = 0;
  for (const table of past) history += await count(`${table} WHERE ${own}`);
  for (const table of [storeTable(stream), ...past]) {
    await session.run(`DELETE FROM ${table} WHERE ${own}`);
  }
  await session.run(`DELETE FROM ${keysTable(stream)} WHERE key IN ${list}`);
  await session.run(
    `DELETE FROM ${storeTable('rejects', 'cdsync')} WHERE stream = ${sqlText(stream)} AND key IN ${list}`,
  );
  return { rows, history };
}

/**
 * Erases rows from a stream's snapshot, changes and history, in its own commit. Older files still have the rows until the
 * store is rewritten and the commit is published.
 */
export async function forgetRows(store: SnapshotStore, task: ForgetTask): Promise<Forgotten> {
  const { state, runId, at, sequence } = task;
  const snapshot = await filesWithout(store, task);
  const { session } = store;
  return session.transaction(async () => {
    const forgotten = await erase(store, task);
    const rows = state.rows - forgotten.rows;
    const changes = await rewriteChanges(store, { ...task, columns: state.columns });
    const { rewritten_changes: _, ...known } = state;
    const next: StreamState = {
      ...known,
      run_id: runId,
      sequence,
      synced_at: at,
      rows,
      snapshot,
      changes: [],
      rewritten: true,
      ...(changes === undefined ? {} : { rewritten_changes: changes }),
    };
    await store.rememberStream(next);
    const committedAt = await nextCommitTime(store, at);
    await recordCommitTime(store, next, committedAt);
    const time = `${sqlText(committedAt)}::TIMESTAMPTZ`;
    await session.run(
      `INSERT INTO ${storeTable('streams', 'cdsync')} VALUES (${sqlText(runId)}, ${sqlText(state.stream)}, ${sequence}, true,
         ${[rows, 0, 0, forgotten.rows, rows, 0, 0].join(', ')}, true)`,
    );
    await session.run(
      `INSERT INTO ${storeTable('runs', 'cdsync')} VALUES (${sqlText(runId)}, ${sequence}, 'ok', ${time}, ${time})`,
    );
    return forgotten;
  });
}

import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RequestCounts } from '../api/client.js';
import { type ColumnField, ColumnSet, type StoredColumn } from '../columns/columns.js';
import { sha256OfFile, syncFolder } from '../core/durable.js';
import type { Database } from '../storage/duckdb.js';
import type { Counters, JournalState } from '../storage/journal.js';
import {
  allKeys,
  type DroppedRows,
  keysVersion,
  type Part,
  type PartFiles,
  type PartRecord,
  partFiles,
  rejectsIn,
  writeKeys,
} from '../storage/part.js';
import { hitRowsSql, noUnchangedRows, type UnchangedRows } from '../storage/unchanged-rows.js';

/** Counters of a stream's reading, updated while it runs. */
export interface LiveCounters extends RequestCounts {
  milliseconds: number;
  pages: number;
  read: number;
  kept: number;
  rejected: number;
  replaced: number;
  missing: number;
  cached: number;
}

/** The result of reading a stream. */
export interface ReadResult {
  /** Records that were read again unchanged from the previous snapshot; they are in no part. */
  readonly unchangedRows: UnchangedRows;
  /** Parts that have rows, in the order of their numbers. */
  readonly parts: readonly Part[];
  /** The columns of all parts, with types wide enough for all their values. */
  readonly columns: readonly StoredColumn[];
  /** Columns that records had and that no part keeps: rules or the contract leave them out. */
  readonly leftOut: readonly ColumnField[];
  readonly counters: Counters;
  /** Rows of partitions that were read again from their start. */
  readonly dropped: readonly DroppedRows[];
  /** Files of the rejected records. */
  readonly rejects: readonly string[];
}

function droppedRows({ parts, cursors }: JournalState): DroppedRows[] {
  const dropped: DroppedRows[] = [];
  for (const { number, segments } of parts) {
    let from = 0;
    for (const [partition, attempt, rows] of segments) {
      const to = from + rows;
      if (attempt < (cursors.get(partition)?.attempt ?? 1)) dropped.push({ part: number, from, to });
      from = to;
    }
  }
  return dropped;
}

/** Makes the result of a finished reading from its journal and its columns. */
export function collectReadResult(
  folder: string,
  state: JournalState,
  { columns, leftOut }: { readonly columns: ColumnSet; readonly leftOut: readonly ColumnField[] },
  counters: Counters,
): ReadResult {
  const merged = ColumnSet.restore(columns.store());
  for (const part of state.parts) merged.merge(ColumnSet.restore(part.columns));
  const filesOf = (number: number) => partFiles(join(folder, 'parts'), number);
  return {
    unchangedRows: noUnchangedRows,
    parts: state.parts
      .filter(({ rows }) => rows > 0)
      .map((part) => {
        const { path, keysPath } = filesOf(part.number);
        return { ...part, path, keysPath };
      }),
    columns: merged.store(),
    leftOut: [...leftOut, ...state.parts.flatMap((part) => part.left_out ?? [])],
    counters,
    dropped: droppedRows(state),
    rejects: state.parts.filter(({ rejects }) => rejects > 0).map(({ number }) => filesOf(number).rejectsPath),
  };
}

/**
 * Prepares a stream's folders. With a journal, it checks the files that the journal names, and removes all others. If a
 * named file is damaged, or there is no journal, it removes everything.
 * @returns whether the reading can resume from the journal
 */
export async function preparePartsFolder(
  folder: string,
  resume: JournalState | undefined,
  key: readonly string[],
  database: Database,
): Promise<boolean> {
  const parts = join(folder, 'parts');
  const named = resume?.parts.map((part) => ({ ...part, ...partFiles(parts, part.number) }));
  const usable = resume !== undefined && named !== undefined && (await partsAreWhole(named));
  if (!usable) await rm(folder, { recursive: true, force: true });
  await rm(join(folder, 'staging'), { recursive: true, force: true });
  await mkdir(parts, { recursive: true, mode: 0o700 });
  await mkdir(join(folder, 'staging'), { mode: 0o700 });
  if (!usable) return false;
  await removeUnnamed(parts, resume);
  await restoreKeys(database, named, key);
  await syncFolder(parts);
  return true;
}

/** Whether the files of parts are as they were written. */
export async function partsAreWhole(parts: readonly (PartRecord & PartFiles)[]): Promise<boolean> {
  for (const { path, rejectsPath, rows, bytes, sha256, rejects } of parts) {
    if (rejects > 0 && (await rejectsIn(rejectsPath).catch(() => [])).length !== rejects) return false;
    if (rows === 0) continue;
    const stats = await stat(path).catch(() => undefined);
    if (stats?.size !== bytes || (await sha256OfFile(path)) !== sha256) return false;
  }
  return true;
}

async function removeUnnamed(parts: string, { parts: named }: JournalState): Promise<void> {
  const names = new Set(named.flatMap(({ number }) => Object.values(partFiles(parts, number))));
  for (const name of await readdir(parts)) {
    const path = join(parts, name);
    if (!names.has(path)) await rm(path, { force: true });
  }
}

/** Whether the keys file of a part has hashes that cannot be compared with those of this process. */
function isHashedOtherwise({ hash_version: version }: PartRecord): boolean {
  return version !== undefined && version !== keysVersion();
}

/** Writes the keys files again that were altered, or that another version of DuckDB has hashed. */
export async function restoreKeys(database: Database, parts: readonly Part[], key: readonly string[]): Promise<void> {
  const missing: Part[] = [];
  for (const part of parts) {
    if (part.rows === 0) continue;
    const sha256 = await sha256OfFile(part.keysPath).catch(() => undefined);
    if (sha256 === undefined || sha256 !== part.keys_sha256 || isHashedOtherwise(part)) missing.push(part);
  }
  if (missing.length === 0) return;
  const session = await database.connect();
  try {
    for (const { number, path, keysPath, columns } of missing)
      await writeKeys(session, { number, path, columns: ColumnSet.restore(columns).list, key }, keysPath);
  } finally {
    session.close();
  }
}

/** How many records were read, each counted once. Rows of attempts that were given up do not count: they are not part of the result. */
export async function distinctKeys(database: Database, { parts, unchangedRows, dropped }: ReadResult): Promise<number> {
  const { known } = unchangedRows;
  if (known !== null && known.unseenPath === null && parts.length === 0) return known.rows;
  const session = await database.connect();
  try {
    const gone = dropped.map(({ part, from, to }) => `(part = ${part} AND row >= ${from} AND row < ${to})`);
    const kept = gone.length === 0 ? '' : ` WHERE NOT (${gone.join(' OR ')})`;
    const keys = `SELECT key FROM (${allKeys(parts.map(({ keysPath }) => keysPath))})${kept}`;
    const all = known === null ? keys : `${keys} UNION ALL SELECT key FROM (${hitRowsSql(known)})`;
    return await session.number(`SELECT count(DISTINCT key) FROM (${all})`);
  } finally {
    session.close();
  }
}

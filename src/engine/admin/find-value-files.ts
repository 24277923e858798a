import { open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { entriesBelow } from '../../core/folders.js';
import { fileText, fileTexts, internalName, quoteIdentifier, sqlText } from '../../core/sql.js';
import { hasValue, type NamedColumn } from '../../snapshot/forget.js';
import type { Session } from '../../storage/duckdb.js';
import type { JobLayout } from '../../storage/layout.js';

/** Files below a folder, with one of these endings if any are listed; none if there is no such folder. */
export async function filesBelow(folder: string, ...endings: string[]): Promise<string[]> {
  const entries = await entriesBelow(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return entries
    .filter(({ name }) => endings.length === 0 || endings.some((ending) => name.endsWith(ending)))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const fileColumn = internalName('file');

/** A shorter text may occur anywhere by chance. */
const minTextBytes = 6;
const chunkBytes = 4 * 1024 * 1024;

/** Whether a file has one of the texts as bytes. @param chunk of the size of {@link chunkBytes} and the longest text, for all files */
async function holds(path: string, texts: readonly Buffer[], chunk: Buffer): Promise<boolean> {
  const overlap = chunk.length - chunkBytes;
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

/**
 * Which Parquet files have one of the texts. Compression hides them from a search for bytes, so DuckDB reads the rows: those of all
 * files with the same columns in one statement, because a statement for each file takes ten times as long.
 */
async function parquetWith(session: Session, paths: readonly string[], texts: readonly string[]): Promise<string[]> {
  const alike = new Map<string, { columns: NamedColumn[]; paths: string[] }>();
  for (const path of paths) {
    const described = await session.rows(`DESCRIBE SELECT * FROM read_parquet(${fileText(path)})`);
    const columns = described.map((row) => ({ name: String(row.column_name), type: String(row.column_type) }));
    const group = alike.get(JSON.stringify(columns)) ?? { columns, paths: [] };
    alike.set(JSON.stringify(columns), group);
    group.paths.push(path);
  }
  const holding: string[] = [];
  for (const { columns, paths: some } of alike.values()) {
    const rows = `read_parquet(${fileTexts(some)}, filename = ${sqlText(fileColumn)})`;
    const has = await session.rows(
      `SELECT DISTINCT ${quoteIdentifier(fileColumn)} AS path FROM ${rows} WHERE ${hasValue(columns, texts)}`,
    );
    holding.push(...has.map(({ path }) => String(path)));
  }
  return holding;
}

/** Lock files are not opened: closing one would drop the lock that DuckDB has on it in this process. */
function isLockFile(layout: JobLayout, path: string): boolean {
  return path === layout.lock || (path.startsWith(`${layout.deliveries}/`) && path.endsWith('/lock.duckdb'));
}

/**
 * Finds files of a job that contain one of the texts, as bytes or in Parquet. Skips short texts.
 * @returns paths relative to the job's folder
 */
export async function filesWith(session: Session, layout: JobLayout, texts: readonly string[]): Promise<string[]> {
  const searched = texts.filter((text) => Buffer.byteLength(text) >= minTextBytes);
  if (searched.length === 0) return [];
  const bytes = searched.map((text) => Buffer.from(text));
  const chunk = Buffer.allocUnsafe(chunkBytes + Math.max(...bytes.map(({ length }) => length)));
  const paths = (await filesBelow(layout.folder)).filter((path) => !isLockFile(layout, path));
  const holding: string[] = [];
  const packed: string[] = [];
  for (const path of paths) {
    if (await holds(path, bytes, chunk)) holding.push(path);
    else if (path.endsWith('.parquet')) packed.push(path);
  }
  holding.push(...(await parquetWith(session, packed, searched)));
  return holding.map((path) => relative(layout.folder, path)).sort();
}

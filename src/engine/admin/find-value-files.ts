import { open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { entriesBelow } from '../../core/folders.js';
import { fileText } from '../../core/sql.js';
import { hasValue } from '../../snapshot/forget.js';
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

/** A shorter text may occur anywhere by chance. */
const leastTextBytes = 6;
const chunkBytes = 4 * 1024 * 1024;

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

/** Compression hides the texts from a search for bytes, so DuckDB reads the rows. */
async function parquetHolds(session: Session, path: string, texts: readonly string[]): Promise<boolean> {
  const file = `read_parquet(${fileText(path)})`;
  const described = await session.rows(`DESCRIBE SELECT * FROM ${file}`);
  const columns = described.map(({ column_name: name, column_type: type }) => ({
    name: String(name),
    type: String(type),
  }));
  return (await session.number(`SELECT count(*) FROM ${file} WHERE ${hasValue(columns, texts)}`)) > 0;
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
  const searched = texts.filter((text) => Buffer.byteLength(text) >= leastTextBytes);
  if (searched.length === 0) return [];
  const bytes = searched.map((text) => Buffer.from(text));
  const found: string[] = [];
  for (const path of await filesBelow(layout.folder)) {
    if (isLockFile(layout, path)) continue;
    const has =
      (await holds(path, bytes)) || (path.endsWith('.parquet') && (await parquetHolds(session, path, searched)));
    if (has) found.push(relative(layout.folder, path));
  }
  return found.sort();
}

import { open, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileText, sqlText } from '../../core/sql.js';
import type { Session } from '../../storage/duckdb.js';
import type { JobLayout } from '../../storage/layout.js';

/** A shorter text may occur anywhere by chance. */
const leastTextBytes = 6;
const chunkBytes = 4 * 1024 * 1024;

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

/** Compression hides the texts from a search for bytes, so DuckDB reads the rows. */
async function parquetHolds(session: Session, path: string, texts: readonly string[]): Promise<boolean> {
  const row = 'to_json(_cdsync_row)::VARCHAR';
  const found = texts.map((text) => `contains(${row}, ${sqlText(JSON.stringify(text).slice(1, -1))})`);
  return (
    (await session.number(
      `SELECT count(*) FROM read_parquet(${fileText(path)}) AS _cdsync_row WHERE ${found.join(' OR ')}`,
    )) > 0
  );
}

/**
 * Files of a job, relative to its folder, that contain one of the texts, as bytes or in Parquet. Skips short texts, and the keys
 * that are kept until every destination has erased them too.
 */
export async function filesWith(session: Session, layout: JobLayout, texts: readonly string[]): Promise<string[]> {
  const searched = texts.filter((text) => Buffer.byteLength(text) >= leastTextBytes);
  if (searched.length === 0) return [];
  const bytes = searched.map((text) => Buffer.from(text));
  const found: string[] = [];
  const awaited = `${layout.erasuresFolder}/`;
  for (const path of await filesBelow(layout.folder)) {
    if (path.startsWith(awaited)) continue;
    const has =
      (await holds(path, bytes)) || (path.endsWith('.parquet') && (await parquetHolds(session, path, searched)));
    if (has) found.push(relative(layout.folder, path));
  }
  return found.sort();
}

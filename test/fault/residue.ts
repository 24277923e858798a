import { join } from 'node:path';
import { entriesBelow } from '../../src/core/folders.js';

const runId = /\d{8}T\d{6}Z-[0-9a-f]{6}/g;

/** Every file and folder below, relative to it, sorted. */
export async function listed(folder: string): Promise<string[]> {
  const entries = await entriesBelow(folder);
  return entries.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
}

/** Names without ids and numbers that differ between equal runs: the number of parts depends on timing. */
export function kinds(files: readonly string[]): Set<string> {
  return new Set(
    files.map((file) =>
      file
        .replace(runId, 'RUN')
        .replace(/[0-9a-f]{32}(?=\.parquet)/, 'ID')
        .replace(/(?<=published\/)\d+(-[0-9a-f]{8})?/, 'N')
        .replace(/(RUN-)?\d{5}(?=\.parquet)/, 'N'),
    ),
  );
}

/** The runs in the names of Parquet folders. */
export function runsOf(files: readonly string[]): Set<string> {
  const inParquet = files.filter((file) => file.includes('/parquet/'));
  return new Set(inParquet.flatMap((file) => file.match(runId) ?? []));
}

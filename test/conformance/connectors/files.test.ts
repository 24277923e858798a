import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'vitest';
import files from '../../../connectors/files/index.js';
import { folderOf } from '../../../connectors/files/manifest.js';
import { comparedRows } from '../../../src/conformance/compare.js';
import { type TablePlace, tableConformance } from '../../../src/conformance/index.js';
import { folderContents } from '../../fixtures/folder-contents.js';
import { setQuery } from '../../fixtures/set-reader.js';

async function folderPlace(more: Record<string, unknown>): Promise<TablePlace> {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-files-'));
  const path = join(folder, 'exports');
  return {
    options: { path, memory_mb: 256, ...more },
    rows: async (table) => {
      const root = join(path, folderOf(table));
      if (!existsSync(root)) return [];
      return comparedRows(await setQuery(async (name) => join(root, name)));
    },
    contents: () => folderContents(folder),
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

describe('in a folder, as Parquet', () => {
  tableConformance({ connector: files, place: () => folderPlace({}) });
});

describe('in a folder, as CSV', () => {
  tableConformance({ connector: files, place: () => folderPlace({ format: 'csv' }) });
});

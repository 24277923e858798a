import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import duckdb from '../../../connectors/duckdb/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { duckdbRows } from '../../fixtures/duckdb-rows.js';
import { folderContents } from '../../fixtures/folder-contents.js';

tableConformance({
  connector: duckdb,
  // DuckDB's own compression of doubles stores both zeros as 0.0.
  keepsNegativeZero: false,
  place: async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-duckdb-'));
    const path = join(folder, 'warehouse.duckdb');
    return {
      options: { path, schema: 'cdp' },
      rows: (table) => duckdbRows(path, `"cdp"."${table}"`),
      contents: () => folderContents(folder),
      close: () => rm(folder, { recursive: true, force: true }),
    };
  },
});

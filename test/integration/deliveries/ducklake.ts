import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { lakeRows, lakeRun } from '../../fixtures/ducklake.js';
import type { Target } from './targets.js';

const names = ['ducklake', 'sqlite_scanner'];
const double = (name: string) => `"${name.replaceAll('"', '""')}"`;
const single = (text: string) => `'${text.replaceAll("'", "''")}'`;

export async function ducklakeCanBeHad(): Promise<boolean> {
  return (await duckdbExtensions(names)) !== undefined;
}

/** Tables of a lake whose catalog is a file of SQLite, read by DuckDB without the connector. */
export const ducklake: Target = {
  name: 'ducklake',
  otherText: '',
  text: 'VARCHAR',
  stampsLoads: true,
  refuses: () => false,
  killedAt: 'statement',
  hands: {
    comment: (table, text) => `COMMENT ON TABLE ${table} IS ${single(text)}`,
    copy: (from, to) => [`CREATE TABLE ${to} AS FROM ${from}`],
  },
  async start() {
    const extensions = (await duckdbExtensions(names)) as string;
    const root = await mkdtemp(join(tmpdir(), 'cdsync-deliveries-ducklake-'));
    let places = 0;
    return {
      stop: () => rm(root, { recursive: true, force: true }),
      place: async () => {
        places += 1;
        const file = join(root, `${places}.sqlite`);
        // In a catalog of SQLite, DuckLake cannot inline rows of a table that has lost a column since its last rows.
        const settings = ['DATA_INLINING_ROW_LIMIT 0'];
        const reading = { extensions, names, catalog: `sqlite:${file}`, settings };
        const table = (name: string) => `lake.cdp.${double(name)}`;
        return {
          options: {
            ...{ connector: 'ducklake', catalog: { sqlite: file }, data_path: join(root, String(places)) },
            ...{ schema: 'cdp', extensions, memory_mb: 256 },
          },
          quoted: double,
          table,
          literal: single,
          // Of the records of one table the newest counts.
          rows: (name) => {
            const newest = 'QUALIFY version = max(version) OVER (PARTITION BY table_name)';
            return lakeRows(reading, `FROM ${table(name)} ${name === '_cdsync_state' ? newest : ''}`);
          },
          types: async (name) => {
            const rows = await lakeRows(
              reading,
              `SELECT column_name AS name, data_type AS type FROM duckdb_columns()
               WHERE database_name = 'lake' AND schema_name = 'cdp' AND table_name = ${single(name)} ORDER BY column_index`,
            );
            return new Map(rows.map((row) => [String(row.get('name')), String(row.get('type'))]));
          },
          run: (sql) => lakeRun(reading, sql),
          drop: (name) => lakeRun(reading, `DROP TABLE ${table(name)}`),
          close: async () => undefined,
        };
      },
    };
  },
};

import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readAllValues } from '../../../src/storage/database-file.js';
import { Database } from '../../../src/storage/duckdb.js';
import { areLarge, rowsTogether, vectorRows } from '../../../src/storage/large-rows.js';
import { copyToParquet } from '../../../src/storage/parquet.js';

const rows = 70;
const rowBytes = 1_000_000;
const form = { compression: 'none', rowBytes } as const;
let folder: string;
let file: string;
let table: string;

/** With a DuckDB of a job with that `memory_mb`. */
async function within<T>(memoryMb: number, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await Database.open({ memoryMb, threads: 2 });
  try {
    return await work(database);
  } finally {
    database.close();
  }
}

// Letters that no compression makes small.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'large-rows-'));
  const json = join(folder, 'rows.json');
  [file, table] = [join(folder, 'rows.parquet'), join(folder, 'rows.duckdb')];
  const text = () => randomBytes((rowBytes / 4) * 3).toString('base64');
  const lines = Array.from({ length: rows }, (_, id) => JSON.stringify({ id, text: text() }));
  await writeFile(json, lines.join('\n'));
  await within(2000, async (database) => {
    const session = await database.connect();
    await copyToParquet(session, `SELECT * FROM read_json('${json}')`, file, form);
    await session.run(`ATTACH '${table}' AS made`);
    await session.run(`CREATE TABLE made.rows AS FROM read_parquet(['${file}', '${file}', '${file}'])`);
    await session.run('DETACH made');
    session.close();
  });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it('of large rows, few are worked on together; of others, as many as DuckDB takes', () => {
  expect([1_000, 15_000].map((bytes) => rowsTogether(bytes))).toEqual([vectorRows, vectorRows]);
  expect([16_000, 1_000_000, 50_000_000].map((bytes) => rowsTogether(bytes))).toEqual([500, 8, 1]);
  // Of a table with one large row among a thousand, a few hundred; of one among a million, as many as of small rows.
  expect([17_000, 200].map((average) => rowsTogether(16_000_000, average))).toEqual([470, vectorRows]);
  expect([0, 15_000, 16_000].map(areLarge)).toEqual([false, false, true]);
});

it('large rows are joined and written in a memory that has no place for all of them', async () => {
  const joined = `SELECT r.* FROM read_parquet('${file}') AS r JOIN (SELECT id FROM '${file}') AS c ON r.id = c.id`;
  const written = await within(400, (database) =>
    database.use('comparing', { recordBytes: rowBytes }, async () => {
      const session = await database.connect();
      try {
        return await copyToParquet(session, joined, join(folder, 'joined.parquet'), form);
      } finally {
        session.close();
      }
    }),
  );
  expect(written).toBe(rows);
});

it('every value of a table is read in a memory that has no place for all of its rows', async () => {
  await within(128, (database) => readAllValues(database, table));
});

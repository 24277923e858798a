import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { comparable, rowBytesOf } from '../../../src/snapshot/large-rows.js';
import { Database } from '../../../src/storage/duckdb.js';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeAll(async () => {
  snapshots = await Snapshots.open();
});
afterAll(() => snapshots.close());

const lists = ['NULL', '[]', '[NULL]', "['NULL']", "['']", "['a, b']", "['a', 'b']", "['a', NULL]", "['[]']"];
const objects = ['NULL', '{a: NULL, b: NULL}', "{a: '', b: NULL}", '{a: NULL, b: []}', '{a: NULL, b: [NULL]}'];
const texts = ['NULL', "''", "'NULL'", "' '", "'a'", "'A'"];

it.each([
  ['VARCHAR', texts],
  ['VARCHAR[]', lists],
  ['STRUCT(a VARCHAR, b VARCHAR[])', objects],
])('no two values of %s are taken for equal', async (type, values) => {
  const rows = values.map((value) => `SELECT (${value})::${type} AS v`).join(' UNION ALL ');
  const [found] = await snapshots.query(`SELECT count(DISTINCT ${comparable(type, 'v')})::INTEGER AS n FROM (${rows})`);
  expect(found?.n).toBe(values.length);
});

it.each([
  ['a list of 4,000 texts', 'list_transform(range(4000), x -> (x % 7)::VARCHAR)', 64_000],
  ['a list of 1,000 objects', "list_transform(range(1000), x -> {sku: 'a', n: x})", 32_000],
  ['250 numbers', Array.from({ length: 250 }, (_, at) => `${at}`).join(', '), 4_000],
])('a row with %s takes memory, although a file has it in few bytes', async (_, values, bytes) => {
  const folder = await mkdtemp(join(tmpdir(), 'large-rows-'));
  const database = await Database.open({ memoryMb: 768, threads: 1 });
  const session = await database.connect();
  try {
    const path = join(folder, 'rows.parquet');
    await session.run(`COPY (SELECT i, ${values} FROM range(50) AS r(i)) TO '${path}' (FORMAT parquet)`);
    const measured = await rowBytesOf(session, [path, join(folder, 'gone.parquet')]);
    expect(measured).toBeGreaterThanOrEqual(bytes);
    expect(measured).toBeLessThan(4 * bytes);
  } finally {
    session.close();
    database.close();
    await rm(folder, { recursive: true });
  }
});

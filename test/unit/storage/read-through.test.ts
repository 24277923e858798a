import { copyFile, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Database, readAllValues } from '../../../src/storage/duckdb.js';

/** The position of the first block in a DuckDB file, and the size of a block. */
const [headers, block] = [3 * 4096, 262_144];

let folder: string;
let database: Database;
let path: string;
let blocks: number[];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-read-through-'));
  path = join(folder, 'whole.duckdb');
  database = await Database.open({ memoryMb: 256, threads: 2 });
  const session = await database.connect();
  await session.run(`ATTACH '${path}' AS made`);
  await session.run(`CREATE TABLE made.t AS SELECT range AS n, md5(range::VARCHAR) AS text, [range, range % 7] AS list,
    {part: 'x' || (range % 1000)} AS struct, CASE WHEN range % 3 = 0 THEN random() END AS often_null FROM range(200000)`);
  await session.run('CREATE SCHEMA made."of cdsync"');
  await session.run('CREATE TABLE made."of cdsync"."a table" AS SELECT md5(range::VARCHAR) AS text FROM range(20000)');
  await session.run('CHECKPOINT made');
  await session.run('USE made');
  const used = await session.rows(
    `SELECT DISTINCT block_id FROM (FROM pragma_storage_info('t') UNION ALL BY NAME FROM pragma_storage_info('"of cdsync"."a table"'))
     WHERE persistent AND block_id >= 0 ORDER BY 1`,
  );
  blocks = used.map(({ block_id }) => Number(block_id));
  await session.run('USE memory');
  await session.run('DETACH made');
  session.close();
});
afterAll(async () => {
  database.close();
  await rm(folder, { recursive: true, force: true });
});

it('finds nothing wrong with a whole file, and may be called again', async () => {
  await readAllValues(database, path);
  await readAllValues(database, path);
});

it('finds a changed byte in any block of values', async () => {
  expect(blocks.length).toBeGreaterThan(20);
  const copy = join(folder, 'damaged.duckdb');
  for (const id of blocks) {
    await copyFile(path, copy);
    const file = await open(copy, 'r+');
    const at = headers + id * block + 100 + ((id * 7919) % 1000);
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at);
    await file.write(Buffer.from([(buffer[0] ?? 0) ^ 1]), 0, 1, at);
    await file.close();
    await expect(readAllValues(database, copy), `block ${id}`).rejects.toMatchObject({ code: 'state_unreadable' });
    await rm(copy);
  }
  await readAllValues(database, path);
});

import { copyFile, mkdtemp, open, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { isDamaged, readAllValues } from '../../../src/storage/database-file.js';
import { Database } from '../../../src/storage/duckdb.js';

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

it('a file that DuckDB has shortened is whole, and each shorter one is damaged', async () => {
  const copy = join(folder, 'shorter.duckdb');
  const session = await database.connect();
  const isReadable = async () => {
    try {
      await session.run(`ATTACH '${copy}' AS shorter (READ_ONLY)`);
      for (const table of ['small', 'again', 'long'])
        await session.rows(`SELECT sum(hash(COLUMNS(*))) FROM shorter.${table}`);
      return true;
    } catch {
      return false;
    } finally {
      await session.run('DETACH DATABASE IF EXISTS shorter');
    }
  };
  try {
    for (const statement of [
      'CREATE TABLE small AS SELECT range AS n, md5(range::VARCHAR) AS text FROM range(20000)',
      'CREATE TABLE big AS SELECT range AS n, md5(range::VARCHAR) AS text FROM range(300000)',
      'CREATE TABLE kept AS FROM small',
      'DROP TABLE big',
      "CREATE TABLE long AS SELECT repeat('long', 20000) || range AS text FROM range(20)",
      'CREATE TABLE again AS FROM small',
      'DROP TABLE kept',
    ])
      for (const each of [`ATTACH '${copy}' AS shrunk`, 'USE shrunk', statement, 'USE memory', 'DETACH shrunk'])
        await session.run(each);
    // DuckDB's own count is that of the longer file.
    await session.run(`ATTACH '${copy}' AS shrunk (READ_ONLY)`);
    const counted = await session.number(
      "SELECT total_blocks FROM pragma_database_size() WHERE database_name = 'shrunk'",
    );
    await session.run('DETACH shrunk');
    const whole = (await stat(copy)).size;
    expect(whole).toBeLessThan(headers + counted * block);
    for (let bytes = whole; bytes > headers; bytes -= block) {
      await truncate(copy, bytes);
      expect(await isReadable(), `${bytes} of ${whole} bytes`).toBe(bytes === whole);
      expect(await isDamaged(database, copy), `${bytes} of ${whole} bytes`).toBe(bytes !== whole);
    }
  } finally {
    session.close();
    await rm(copy, { force: true });
  }
});

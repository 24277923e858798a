import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowHash } from '../../../src/columns/row-hash.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';
import { writeParquet } from '../../../src/storage/parquet.js';
import { allKeys, keysOf, partFiles, writeKeys } from '../../../src/storage/part.js';

let folder: string;
let database: Database;
let session: Session;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'part-'));
  database = await Database.open({ memoryMb: 128, threads: 1 });
  session = await database.connect();
});
afterAll(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true });
});

const columns = [
  { name: 'id', type: 'VARCHAR' },
  { name: 'n', type: 'BIGINT' },
];

async function part(number: number, values: string) {
  const { path, keysPath } = partFiles(folder, number);
  await writeParquet(session, `SELECT * FROM (VALUES ${values}) AS t(id, n)`, path, { compression: 'zstd' });
  return { path, keysPath };
}

describe('a keys file', () => {
  it('has key, hash, part and place of each row, in the order of the rows', async () => {
    const { path, keysPath } = await part(7, "('a', 1::BIGINT), ('b', 2), ('a', 3)");
    await writeKeys(session, { number: 7, path, columns, key: ['id'] }, keysPath);
    const rows = await session.rows(`SELECT key, hash::VARCHAR AS hash, part, row FROM read_parquet('${keysPath}')`);
    const hashes = await session.rows(`SELECT ${rowHash(columns)}::VARCHAR AS hash FROM read_parquet('${path}')`);
    expect(rows.map(({ key, part: of, row }) => [key, Number(of), Number(row)])).toEqual([
      ['a', 7, 0],
      ['b', 7, 1],
      ['a', 7, 2],
    ]);
    expect(rows.map(({ hash }) => hash)).toEqual(hashes.map(({ hash }) => hash));
  });

  it('has one text for the columns that make the key', async () => {
    const { path } = await part(8, "('a', 1::BIGINT)");
    const [row] = await session.rows(keysOf({ number: 8, path, columns, key: ['id', 'n'] }));
    expect(row?.key).toBe('["a","1"]');
  });
});

describe('the keys of all parts', () => {
  it('are those of each part, and have the types of a keys file even if there is none', async () => {
    const paths: string[] = [];
    for (const number of [1, 2]) {
      const { path, keysPath } = await part(number, `('k${number}', ${number}::BIGINT)`);
      await writeKeys(session, { number, path, columns, key: ['id'] }, keysPath);
      paths.push(keysPath);
    }
    const keys = await session.rows(`SELECT key FROM (${allKeys(paths)}) ORDER BY part`);
    expect(keys.map(({ key }) => key)).toEqual(['k1', 'k2']);
    const types = async (files: string[]) =>
      (await session.rows(`DESCRIBE ${allKeys(files)}`)).map(({ column_name, column_type }) => [
        column_name,
        column_type,
      ]);
    expect(await types([])).toEqual(await types(paths));
    expect(await session.rows(allKeys([]))).toEqual([]);
  });
});

describe('the files of a part', () => {
  it('are named by its number, so that names sort as the numbers do', () => {
    expect(partFiles('/parts', 12)).toEqual({
      path: '/parts/00012.parquet',
      keysPath: '/parts/00012.keys',
      rejectsPath: '/parts/00012.rejects.jsonl',
    });
  });
});

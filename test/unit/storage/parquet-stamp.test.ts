import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sqlText } from '../../../src/core/sql.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';
import { sha256OfFile } from '../../../src/storage/durable.js';
import { writeParquet } from '../../../src/storage/parquet.js';
import { stampParquet } from '../../../src/storage/parquet-stamp.js';

let folder: string;
let database: Database;
let session: Session;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-stamped-'));
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
});
afterAll(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true });
});

const at = new Date('2026-11-03T04:05:06.789Z');
const columns = [
  { name: '_op', value: 'insert' },
  { name: '_run_id', value: "it's ü" },
  { name: '_synced_at', value: at },
];
const stamps = `'insert' AS _op, 'it''s ü' AS _run_id, ${sqlText(at.toISOString())}::TIMESTAMPTZ AS _synced_at`;

/** Columns of many kinds, with dictionaries and without, with NULL, and of all-null columns. */
const values = `i AS id, 'p' || i AS text, CASE WHEN i % 3 = 0 THEN 'gold' END AS tier, i / 7 AS number,
  i % 2 = 0 AS flag, NULL::VARCHAR AS nothing, [i, NULL, i + 1] AS tags, { a: i, b: [{ c: 'x' || i }] } AS part,
  '{"n":' || i || '}' AS doc, (i || '.25')::DECIMAL(20, 2) AS amount, DATE '2026-01-01' + i::INTEGER % 400 AS day`;

let files = 0;
async function stamped(rows: number, compression: 'zstd' | 'snappy' | 'gzip' | 'none') {
  files += 1;
  const path = join(folder, `${files}.parquet`);
  const source = await writeParquet(session, `SELECT ${values} FROM range(${rows}) AS t(i)`, path, { compression });
  return { source, file: await stampParquet(source, join(folder, `${files}.stamped.parquet`), columns) };
}

test('a stamped file has the rows of its source after the constant columns, in the same types, whoever reads it', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(fc.constantFrom(0, 1, 2, 20_480, 60_000), fc.integer({ min: 3, max: 300 })),
      fc.constantFrom('zstd' as const, 'snappy' as const, 'gzip' as const, 'none' as const),
      async (rows, compression) => {
        const { source, file } = await stamped(rows, compression);
        expect(file).toMatchObject({
          rows,
          bytes: (await stat(file.path)).size,
          sha256: await sha256OfFile(file.path),
        });
        const expected = `SELECT ${stamps}, * FROM read_parquet(${sqlText(source.path)})`;
        const found = `SELECT * FROM read_parquet(${sqlText(file.path)})`;
        expect(await session.rows(`DESCRIBE ${found}`)).toEqual(await session.rows(`DESCRIBE ${expected}`));
        for (const [one, other] of [
          [found, expected],
          [expected, found],
        ]) {
          expect(await session.number(`SELECT count(*) FROM (${one} EXCEPT ALL ${other})`)).toBe(0);
        }
        expect(await session.number(`SELECT count(*) FROM (${found}) WHERE _op = 'insert' AND id >= 0`)).toBe(rows);
        expect(await session.number(`SELECT count(*) FROM (${found}) WHERE _op = 'update'`)).toBe(0);
        const gold = `SELECT count(*) FROM (${found}) WHERE tier = 'gold'`;
        expect(await session.number(gold)).toBe(Math.ceil(rows / 3));
        const objects = async (path: string) =>
          parquetReadObjects({ file: await asyncBufferFromFile(path), compressors });
        const stampedRows = await objects(file.path);
        const plain = (await objects(source.path)).map((row) => ({
          _op: 'insert',
          _run_id: "it's ü",
          _synced_at: at,
          ...row,
        }));
        expect(stampedRows).toEqual(plain);
      },
    ),
    { numRuns: 12 },
  );
});

test('each row group lies within the file for readers that look only at its first column', async () => {
  const { file } = await stamped(60_000, 'zstd');
  const places = await session.rows(
    `SELECT row_group_id, min(coalesce(dictionary_page_offset, data_page_offset)) FILTER (column_id = 0)
       + any_value(row_group_compressed_bytes) / 2 AS middle, max(total_compressed_size + coalesce(dictionary_page_offset, data_page_offset)) AS last
     FROM parquet_metadata(${sqlText(file.path)}) GROUP BY ALL`,
  );
  expect(places.length).toBeGreaterThan(1);
  for (const { middle, last } of places) {
    expect(Number(middle)).toBeLessThan(file.bytes);
    expect(Number(last)).toBeLessThan(file.bytes);
  }
});

test('what is no Parquet file is refused', async () => {
  const path = join(folder, 'other');
  await writeFile(path, 'a text of more than eight bytes');
  const source = { path, rows: 1, bytes: 31 };
  await expect(stampParquet(source, join(folder, 'never'), columns)).rejects.toThrow(RangeError);
});

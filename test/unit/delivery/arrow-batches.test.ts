import { type RecordBatch, Table, tableFromIPC, tableToIPC } from 'apache-arrow';
import { expect, it } from 'vitest';
import { arrowBatches } from '../../../src/delivery/arrow-batches.js';
import { Database } from '../../../src/storage/duckdb.js';

const columns = [
  ['k', 'BIGINT', 'i'],
  ['yes', 'BOOLEAN', 'i % 2 = 0'],
  ['whole', 'BIGINT', '9007199254740993 + i'],
  ['huge', 'HUGEINT', "'12345678901234567890123456789012345678'::HUGEINT - i"],
  ['real', 'DOUBLE', '-0.0::DOUBLE'],
  ['price', 'DECIMAL(20,2)', "'123456789012345678.90'::DECIMAL(20,2)"],
  ['word', 'VARCHAR', '\'naïve "😀", \' || i'],
  ['document', 'JSON', '\'{"a": 1.50}\'::JSON'],
  ['seen', 'TIMESTAMP WITH TIME ZONE', "TIMESTAMPTZ '1969-12-31 23:59:59.123456+00'"],
  ['born', 'DATE', "DATE '1969-12-30'"],
  ['marks', 'BIGINT[]', '[i, NULL, -1]'],
  ['times', 'TIMESTAMP WITH TIME ZONE[]', "[TIMESTAMPTZ '2026-01-01 00:00:00.000001+00', NULL]"],
  ['home', 'STRUCT(city VARCHAR, zip BIGINT)', "{'city': 'Bern', 'zip': i}"],
  ['nothing', 'VARCHAR', 'NULL'],
] as const;

/** Rows of several chunks of DuckDB, read from the bytes that a stream of Arrow has. */
async function received(count: number, value: (sql: string) => string): Promise<Record<string, unknown>[]> {
  const database = await Database.open({ memoryMb: 128, threads: 1 });
  const session = await database.connect();
  try {
    await session.run("SET TimeZone = 'UTC'");
    const selected = columns.map(([name, type, sql]) => `(${value(sql)})::${type} AS "${name}"`);
    const names = columns.map(([name]) => name);
    const query = `SELECT ${selected.join(', ')} FROM range(${count}) numbers(i)`;
    const batches: RecordBatch[] = [];
    for await (const batch of arrowBatches(session, query, names)) batches.push(batch);
    const table = tableFromIPC(tableToIPC(new Table(batches), 'stream'));
    return table.toArray().map((row) => row.toJSON() as Record<string, unknown>);
  } finally {
    session.close();
    database.close();
  }
}

it('Arrow batches have every value of every type, digit for digit', async () => {
  const rows = await received(5_000, (sql) => sql);
  expect(rows.map(({ k }) => k)).toEqual(Array.from({ length: 5_000 }, (_, i) => BigInt(i)));
  const { marks, times, home, seen, born, ...plain } = rows[4_999] ?? {};
  expect(plain).toEqual({
    k: 4999n,
    yes: false,
    whole: 9007199254745992n,
    huge: '12345678901234567890123456789012340679',
    real: -0,
    price: '123456789012345678.90',
    word: 'naïve "😀", 4999',
    document: '{"a": 1.50}',
    nothing: null,
  });
  expect([...(marks as Iterable<unknown>)]).toEqual([4999n, null, -1n]);
  expect([...(times as Iterable<unknown>)]).toEqual([Date.UTC(2026, 0) + 0.001, null]);
  expect(JSON.parse(JSON.stringify(home, (_, value) => (typeof value === 'bigint' ? `${value}` : value)))).toEqual({
    city: 'Bern',
    zip: '4999',
  });
  expect([seen, born].map(Number)).toEqual([-876.544, -2 * 86_400_000]);
});

it('Arrow batches have NULL where a value is missing', async () => {
  const rows = await received(3, () => 'NULL');
  for (const row of rows) expect(Object.values(row)).toEqual(columns.map(() => null));
});

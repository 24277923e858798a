import { DuckDBInstance } from '@duckdb/node-api';
import { type Table, tableFromIPC } from 'apache-arrow';
import { expect, it } from 'vitest';
import { writeArrow } from '../../../src/output/arrow-stream.js';
import { StreamedResult } from '../../../src/sdk/duckdb/streamed-result.js';

async function written(sql: string): Promise<{ bytes: Buffer; error?: unknown }> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const parts: Uint8Array[] = [];
  try {
    await connection.run("SET TimeZone = 'UTC'");
    const result = await StreamedResult.begin(connection, sql);
    const { names, types } = result;
    async function* chunks() {
      for await (const chunk of result.chunks()) yield chunk.getRows();
    }
    await writeArrow({ names, types, chunks }, async (part) => {
      parts.push(part);
    });
    return { bytes: Buffer.concat(parts) };
  } catch (error) {
    return { bytes: Buffer.concat(parts), error };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** The integer of 128 bits that a decimal is, or the count that a time is, from the bytes of its column. */
function integers(table: Table, column: string, width: 4 | 8 | 16): bigint[] {
  return (table.getChild(column)?.data ?? []).flatMap(({ values, offset, length }) => {
    const view = new DataView(values.buffer, values.byteOffset);
    return Array.from({ length }, (_, row) => {
      const at = (offset + row) * width;
      if (width === 4) return BigInt(view.getInt32(at, true));
      if (width === 8) return view.getBigInt64(at, true);
      return (view.getBigInt64(at + 8, true) << 64n) + view.getBigUint64(at, true);
    });
  });
}

/** Whether a stream has the mark of its end: a message without length. */
function isEnded(bytes: Buffer): boolean {
  return bytes.subarray(-8).equals(Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]));
}

it('numbers, decimals and times have every digit', async () => {
  const { bytes, error } =
    await written(`SELECT i::BIGINT + 9007199254740993 AS whole, (-i - 1)::DECIMAL(6, 2) AS small,
    '-99999999999999999999999999999999999.99'::DECIMAL(37, 2) + i::DECIMAL(6, 2) AS large, sum(i) OVER () - 170141183460469231731687303715884105 AS huge,
    18446744073709551615::UBIGINT AS most, TIMESTAMP '1969-12-31 23:59:59.123456' AS local, TIMESTAMPTZ '2026-01-02 03:04:05.000007+00' AS moment,
    TIMESTAMP_NS '2026-01-02 03:04:05.123456789' AS fine, DATE '1969-12-30' AS day, TIME '23:59:59.999999' AS clock, -0.0::DOUBLE AS real
    FROM range(3000) numbers(i) ORDER BY i`);
  expect(error).toBeUndefined();
  const table = tableFromIPC(bytes);
  expect(table.schema.fields.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'whole Int64',
    'small Decimal[6e+2]',
    'large Decimal[38e+2]',
    'huge Decimal[38e0]',
    'most Uint64',
    'local Timestamp<MICROSECOND>',
    'moment Timestamp<MICROSECOND, UTC>',
    'fine Timestamp<NANOSECOND>',
    'day Date32<DAY>',
    'clock Time64<MICROSECOND>',
    'real Float64',
  ]);
  expect(table.numRows).toBe(3000);
  const last = (column: string, width: 4 | 8 | 16) => integers(table, column, width)[2999];
  expect(last('whole', 8)).toBe(9007199254743992n);
  expect(integers(table, 'small', 16).slice(0, 2)).toEqual([-100n, -200n]);
  expect(last('large', 16)).toBe(-9999999999999999999999999999999999999n + 299_900n);
  expect(last('huge', 16)).toBe(4_498_500n - 170141183460469231731687303715884105n);
  expect(last('most', 8)).toBe(-1n);
  expect(last('local', 8)).toBe(-876_544n);
  expect(last('moment', 8)).toBe(1_767_323_045_000_007n);
  expect(last('fine', 8)).toBe(1_767_323_045_123_456_789n);
  expect(last('day', 4)).toBe(-2n);
  expect(last('clock', 8)).toBe(86_399_999_999n);
  expect(Object.is(table.getChild('real')?.get(2999), -0)).toBe(true);
}, 60_000);

it('nested values, bytes and types that Arrow lacks', async () => {
  const { bytes } =
    await written(`SELECT [{'a': 1, 'b': NULL}, NULL] AS list, [1, NULL, 3]::INTEGER[3] AS fixed, MAP {'k': 1.50, 'l': NULL} AS map,
    '\\x00\\xFF'::BLOB AS bytes, UUID '00000000-0000-0000-0000-00000000000a' AS id, INTERVAL '1 month 2 days' AS span,
    union_value(word := 'x') AS one, '340282366920938463463374607431768211455'::UHUGEINT AS wide, 'mood'::ENUM('mood') AS mood
    UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL`);
  const table = tableFromIPC(bytes);
  const [row, nothing] = table.toArray();
  const { list, fixed, map, bytes: blob, ...texts } = row.toJSON();
  expect(JSON.stringify(list)).toBe('[{"a":1,"b":null},null]');
  expect([...fixed]).toEqual([1, null, 3]);
  expect([...map].map(([key]: [string]) => key)).toEqual(['k', 'l']);
  expect([...blob]).toEqual([0, 255]);
  expect(texts).toEqual({
    id: '00000000-0000-0000-0000-00000000000a',
    span: '1 month 2 days',
    one: 'x',
    wide: '340282366920938463463374607431768211455',
    mood: 'mood',
  });
  expect(Object.values(nothing.toJSON())).toEqual(Array.from({ length: 9 }, () => null));
});

it('a result without rows has its columns, and an end', async () => {
  const { bytes } = await written('SELECT 1 AS n, NULL::DECIMAL(9, 3) AS d WHERE false');
  const table = tableFromIPC(bytes);
  expect(table.schema.fields.map(({ name }) => name)).toEqual(['n', 'd']);
  expect([table.numRows, isEnded(bytes)]).toEqual([0, true]);
});

it('a result that fails after its first rows has no end', async () => {
  const { bytes, error } = await written(
    "SELECT CASE WHEN i = 999999 THEN error('no') ELSE i END::BIGINT AS n FROM range(1000000) numbers(i)",
  );
  expect(error).toBeInstanceOf(Error);
  expect(bytes.length).toBeGreaterThan(100_000);
  expect(isEnded(bytes)).toBe(false);
});

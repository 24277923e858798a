import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import duckdb from '../../../../connectors/duckdb/index.js';
import type { DeliveredColumn } from '../../../../src/delivery/former/delivered-columns.js';
import { type VerifyTask, verifyLoad } from '../../../../src/delivery/former/verify-load.js';
import { parseColumnType } from '../../../../src/sdk/column-type.js';
import type { ColumnSum, TableDestination } from '../../../../src/sdk/former/destination.js';
import { Database, type Session } from '../../../../src/storage/duckdb.js';

let database: Database;
let session: Session;
beforeAll(async () => {
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
});
afterAll(() => {
  session.close();
  database.close();
});

/** The answers of a destination; any other question is an error. */
function destination(count: number, sums?: Readonly<Record<string, ColumnSum>>): TableDestination {
  const found = { count: async () => count, ...(sums && { checksum: async () => new Map(Object.entries(sums)) }) };
  return found as unknown as TableDestination;
}

/** A load of a snapshot of 100 rows, unless the test says otherwise. */
async function verified(more: Partial<VerifyTask> = {}): Promise<string> {
  const task: VerifyTask = {
    destination: destination(100),
    stream: 'members',
    table: 'people',
    mode: 'mirror',
    verify: 'count',
    isSoft: false,
    rows: 100,
    rejected: 0,
    isFirst: false,
    columns: [],
    session,
    everything: undefined,
    ...more,
  };
  return verifyLoad(task).then(
    () => 'it is the same',
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  );
}

const differs = (what: string) => `delivery_differs: table "people" differs from stream "members": ${what}`;

describe('the count of rows', () => {
  it('is that of the snapshot', async () => {
    expect(await verified()).toBe('it is the same');
    for (const found of [99, 101, 0])
      expect(await verified({ destination: destination(found) })).toBe(
        differs(`it has ${found} rows, the snapshot 100`),
      );
  });

  it('may lack as many rows as were refused; the table may also have an older version of each', async () => {
    for (const found of [97, 98, 100])
      expect(await verified({ destination: destination(found), rejected: 3 })).toBe('it is the same');
    for (const found of [96, 101])
      expect(await verified({ destination: destination(found), rejected: 3 })).toContain('delivery_differs');
  });

  it('may be larger in mode upsert, where deleted rows stay', async () => {
    expect(await verified({ mode: 'upsert', destination: destination(150) })).toBe('it is the same');
    expect(await verified({ mode: 'upsert', destination: destination(99) })).toContain('delivery_differs');
  });

  it('is checked in mode append only after the first load', async () => {
    expect(await verified({ mode: 'append', destination: destination(7) })).toBe('it is the same');
    expect(await verified({ mode: 'append', destination: destination(7), isFirst: true })).toContain('it has 7 rows');
  });

  it('is not checked if `verify` is none', async () => {
    expect(await verified({ verify: 'none', destination: destination(7) })).toBe('it is the same');
  });
});

function column(name: string, duckdbType: string, value = `"${name}"`): DeliveredColumn {
  const type = parseColumnType(duckdbType);
  return { name, type, duckdbType, value, mapping: duckdb.mapColumn(type, { name, type, duckdbType }) };
}

describe('the checksums', () => {
  const columns = [
    column('id', 'VARCHAR'),
    column('n', 'BIGINT'),
    column('x', 'DOUBLE'),
    column('_synced_at', 'TIMESTAMP WITH TIME ZONE', '_synced_at'),
  ];
  const everything = async () => [
    { query: `SELECT 'a' AS id, 1::BIGINT AS n, 0.5 AS x`, rows: 1 },
    { query: `SELECT 'b' AS id, NULL::BIGINT AS n, 0.5 AS x`, rows: 1 },
  ];
  // The first 8 hex digits of MD5: a is 0cc175b9, b is 92eb5ffe, 1 is c4ca4238.
  const right = {
    id: { values: 2, sum: String(0x0cc175b9 + 0x92eb5ffe) },
    n: { values: 1, sum: String(0xc4ca4238) },
    x: { values: 2, sum: undefined },
  };
  const task = { verify: 'checksum', rows: 2, columns, everything } as const;

  it('are those of the snapshot, for columns without a computed value', async () => {
    expect(await verified({ ...task, destination: destination(2, right) })).toBe('it is the same');
  });

  it('name the columns that differ', async () => {
    const wrong = { ...right, id: { values: 2, sum: '1' }, x: { values: 1, sum: undefined } };
    expect(await verified({ ...task, destination: destination(2, wrong) })).toBe(differs('the checksums of "id", "x"'));
    const { n, ...lacking } = right;
    expect(await verified({ ...task, destination: destination(2, lacking) })).toBe(differs('the checksums of "n"'));
  });

  it('are not checked if the table is not the snapshot, or its rows are no longer available', async () => {
    const none = destination(2, {});
    expect(await verified({ ...task, destination: none, rejected: 1 })).toBe('it is the same');
    expect(await verified({ ...task, destination: none, mode: 'upsert' })).toBe('it is the same');
    expect(await verified({ ...task, destination: none, mode: 'append' })).toBe('it is the same');
    expect(await verified({ ...task, destination: none, everything: undefined })).toBe('it is the same');
  });

  it('are refused if the destination has none', async () => {
    expect(await verified({ ...task, destination: destination(2) })).toBe(
      'checksum_unsupported: this destination has no checksums',
    );
  });
});

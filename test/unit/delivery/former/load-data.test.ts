import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import postgres from '../../../../connectors/postgres/index.js';
import { sqlText } from '../../../../src/core/sql.js';
import type { DeliveredColumn } from '../../../../src/delivery/former/delivered-columns.js';
import { handoverTo } from '../../../../src/delivery/former/handover.js';
import { type LoadDataTask, PieceData } from '../../../../src/delivery/former/load-data.js';
import type { Reject } from '../../../../src/delivery/former/rejects.js';
import { parseColumnType } from '../../../../src/sdk/column-type.js';
import type { ColumnMapping, DataFile, LoadAction } from '../../../../src/sdk/former/load.js';
import { Database, type Session } from '../../../../src/storage/duckdb.js';

let folder: string;
let database: Database;
let session: Session;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-load-'));
  await mkdir(join(folder, 'files'));
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
});
afterEach(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true });
});

function column(name: string, duckdbType: string, more: Partial<ColumnMapping> = {}): DeliveredColumn {
  const type = parseColumnType(duckdbType);
  const mapping = { ...postgres.mapColumn(type, { name, type, duckdbType }), ...more };
  return { name, type, duckdbType, value: `"${name}"`, mapping };
}

const columns = [
  column('id', 'VARCHAR'),
  column('note', 'VARCHAR', { limits: { nul: 'refused', maxBytes: 10 } }),
  column('tags', 'VARCHAR[]'),
  column('day', 'DATE', { limits: { days: { first: '1000-01-01', last: '9999-12-31' } } }),
];

/** Rows, each as `_op`, id, note, tags and day in SQL. */
function piece(rows: readonly string[]): { query: string; rows: number } {
  const all = rows.map((row) => `(${row})`).join(', ');
  const query = `SELECT "_op", 'run-1' AS _run_id, TIMESTAMPTZ '2026-01-01' AS _synced_at, id::VARCHAR AS id, note::VARCHAR AS note,
    tags::VARCHAR[] AS tags, day::DATE AS day FROM (VALUES ${all}) t("_op", id, note, tags, day)`;
  return { query, rows: rows.length };
}

const good = ["'insert', 'a', 'plain', ['x', NULL], DATE '2026-01-31'", "'delete', 'b', NULL, NULL, NULL"];
const odd: readonly (readonly [string, string, string])[] = [
  ["'insert', NULL, 'x', NULL, NULL", 'id', 'the key has no value'],
  ["'insert', repeat('k', 21), 'x', NULL, NULL", 'id', 'a key longer than 20 bytes'],
  ["'insert', 'c' || chr(0), 'x', NULL, NULL", 'id', 'the character U+0000 cannot be stored'],
  ["'insert', 'd', 'a' || chr(0), NULL, NULL", 'note', 'the character U+0000 cannot be stored'],
  ["'insert', 'e', repeat('é', 6), NULL, NULL", 'note', 'longer than 10 bytes'],
  ["'insert', 'f', 'x', ['a', chr(0)], NULL", 'tags', 'the character U+0000 cannot be stored'],
  ["'insert', 'g', 'x', NULL, DATE '0999-12-31'", 'day', 'not between 1000-01-01 and 9999-12-31'],
  ["'insert', 'h', 'x', NULL, 'infinity'", 'day', 'not between 1000-01-01 and 9999-12-31'],
];
/** Texts that only look like U+0000. */
const escaped = `'insert', 'i', '\\u0000', ['\\u0000'], NULL`;

function data(rows: readonly string[], more: Partial<LoadDataTask> & { readonly action?: LoadAction } = {}) {
  const { action = { type: 'merge', absent: 'keep' }, ...rest } = more;
  const told: Reject[][] = [];
  const capabilities = { ...postgres.capabilities, keyBytes: 20 };
  const config = { mode: 'mirror', deletes: 'hard' } as const;
  const made = new PieceData({
    session,
    pieces: rows.map((row) => piece([row])),
    handover: handoverTo({
      connector: { mapColumn: postgres.mapColumn, capabilities },
      config,
      feed: { key: ['id'] },
      columns,
      action,
      key: ['id'],
    }),
    capabilities,
    folder: join(folder, 'files'),
    onReject: 'continue',
    progress: () => undefined,
    handedOver: async (rejects) => {
      told.push([...rejects]);
    },
    ...rest,
  });
  return { made, told };
}

async function read({ path }: DataFile, format: 'csv' | 'jsonl' | 'parquet'): Promise<unknown[]> {
  const reader = { csv: 'read_csv', jsonl: 'read_json', parquet: 'read_parquet' }[format];
  const options = format === 'csv' ? ', header = false, all_varchar = true' : '';
  const rows = await session.rows(`SELECT * FROM ${reader}(${sqlText(path)}${options})`);
  return rows.map((row) => Object.values(row)[1]);
}

describe.each(['csv', 'jsonl', 'parquet'] as const)('rows handed over as %s', (format) => {
  it('are all that the destination can store; each other row is rejected with its reason', async () => {
    const rows = [good[0], ...odd.map(([row]) => row), escaped, good[1]] as string[];
    const { made, told } = data(rows, { capabilities: { format } });
    const found: unknown[] = [];
    for await (const file of made.files()) {
      expect(file.rows).toBe(1);
      found.push(...(await read(file, format)));
    }
    expect(found).toEqual(['a', 'i', 'b']);
    expect(made.rejects.map(({ column: name, reason }) => [name, reason])).toEqual(odd.map(([, ...why]) => why));
    expect(made.rejects.map(({ key }) => key?.[0] ?? null)).toEqual([null, 'k', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect([made.rows, made.handedOver, told]).toEqual([rows.length, 3, [made.rejects]]);
  });

  it('end with the first row that it cannot store, if the job says so', async () => {
    const { made, told } = data([good[0] as string, odd[3]?.[0] as string], {
      capabilities: { format },
      onReject: 'fail',
    });
    const reading = async () => {
      for await (const _ of made.files());
    };
    await expect(reading()).rejects.toMatchObject({
      code: 'row_rejected',
      message: 'the destination cannot hold a row: the character U+0000 cannot be stored in column "note"',
    });
    expect(told).toEqual([]);
  });
});

it('rows handed over as Arrow lack the same rows', async () => {
  const { made } = data([good[0], ...odd.map(([row]) => row), escaped, good[1]] as string[]);
  const found: unknown[] = [];
  for await (const batch of made.batches()) found.push(...batch.toArray().map((row) => [row._op, row.id]));
  expect(found).toEqual([
    ['upsert', 'a'],
    ['upsert', 'i'],
    ['delete', 'b'],
  ]);
  expect(made.rejects.map(({ column: name, reason }) => [name, reason])).toEqual(odd.map(([, ...why]) => why));
});

it('rows of an inserting load have no operation', async () => {
  const { made } = data(good, { action: { type: 'append' }, capabilities: { format: 'csv' } });
  expect(made.columns.map(({ name, targetType }) => [name, targetType])).toEqual([
    ['id', 'text'],
    ['note', 'text'],
    ['tags', 'jsonb'],
    ['day', 'date'],
  ]);
  expect(data(good).made.columns[0]).toMatchObject({ name: '_op', targetType: 'text' });
});

it('a row that the destination refuses is removed from its file, and the others come again', async () => {
  const { made, told } = data([], {
    pieces: [piece([...good, "'insert', 'c', 'third', NULL, NULL"])],
    capabilities: { format: 'csv' },
  });
  for await (const file of made.files()) {
    const second = await file.refuse(1, { column: 'note', reason: 'too plain' });
    expect([second.rows, await read(second, 'csv')]).toEqual([2, ['b', 'c']]);
    const third = await second.refuse(2, { reason: 'no more of these' });
    expect([third.rows, await read(third, 'csv')]).toEqual([1, ['b']]);
  }
  expect(made.handedOver).toBe(1);
  expect(told).toEqual([
    [
      { key: 'a', column: 'note', reason: 'too plain', run_id: 'run-1' },
      { key: 'c', column: null, reason: 'no more of these', run_id: 'run-1' },
    ],
  ]);
});

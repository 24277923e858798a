import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { catalogOf } from '../../../connectors/trino/catalogs.js';
import { csvRows } from '../../../connectors/trino/csv.js';
import { sourceOf } from '../../../connectors/trino/fence.js';
import { latest, type Mark } from '../../../connectors/trino/marks.js';
import { keptProperties, replaceSql, rowText, tablePath } from '../../../connectors/trino/statements.js';
import { mapColumn, valueText, widens } from '../../../connectors/trino/types.js';
import { type ColumnType, trinoMerge } from '../../../src/sdk/index.js';

const folder = await mkdtemp(join(tmpdir(), 'cdsync-trino-unit-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

async function rowsOf(text: string): Promise<unknown[]> {
  const path = join(folder, 'rows.csv');
  await writeFile(path, text);
  const rows: unknown[] = [];
  for await (const row of csvRows(path)) rows.push(row);
  return rows;
}

describe('rows of a CSV file', () => {
  it('keep commas, quotes and line ends, and tell no text from empty text', async () => {
    expect(await rowsOf('a,"b,""c""\nd",,""\n1,2,3,4\n')).toEqual([
      ['a', 'b,"c"\nd', null, ''],
      ['1', '2', '3', '4'],
    ]);
  });

  it('of one column without a value are empty lines', async () => {
    expect(await rowsOf('\n""\n\n')).toEqual([[null], [''], [null]]);
  });

  it('come back as they were written, wherever the file is cut into pieces', async () => {
    const cell = fc.option(fc.string({ unit: 'binary', maxLength: 12 }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(cell, cell), { maxLength: 20 }), async (rows) => {
        const written = (value: string | null) => (value === null ? '' : `"${value.replaceAll('"', '""')}"`);
        const text = rows.map((row) => `${row.map(written).join(',')}\n`).join('');
        const asUtf8 = (value: string | null) => (value === null ? null : Buffer.from(value).toString());
        expect(await rowsOf(text)).toEqual(rows.map((row) => row.map(asUtf8)));
      }),
      { numRuns: 25 },
    );
    const long = 'x"y\n'.repeat(300_000);
    expect(await rowsOf(`1,"${long.replaceAll('"', '""')}"\n2,z\n`)).toEqual([
      ['1', long],
      ['2', 'z'],
    ]);
  });

  it('that end in the middle are an error', async () => {
    await expect(rowsOf('a,"b\n')).rejects.toThrow('in the middle of a row');
  });
});

describe('a value for Trino', () => {
  it.each([
    ['inf', 'double', 'Infinity'],
    ['-inf', 'double', '-Infinity'],
    ['nan', 'double', 'NaN'],
    ['-0.0', 'double', '-0.0'],
    ['inf', 'varchar', 'inf'],
    ['2026-12-31 23:59:59.999999+00', 'timestamp(6) with time zone', '2026-12-31 23:59:59.999999 UTC'],
    ['2026-12-31 23:59:59+05:30', 'timestamp(6) with time zone', '2026-12-31 23:59:59 +05:30'],
    ['2026-12-31 23:59:59+00', 'timestamp(6)', '2026-12-31 23:59:59'],
    ['2026-12-31', 'date', '2026-12-31'],
  ])('%s of type %s is written as %s', (text, type, written) => {
    expect(valueText(text, type)).toBe(written);
  });

  it('cannot leave the literal that it stands in', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const literal = rowText([text], [{ targetType: 'varchar' }]);
        expect(literal.replaceAll("''", '')).not.toContain("'");
        expect(JSON.parse(literal.replaceAll("''", "'"))).toEqual([text]);
      }),
    );
  });
});

describe('a type of Trino', () => {
  const kinds: ColumnType[] = [
    ...(['boolean', 'int64', 'int128', 'double', 'text', 'json', 'timestamp', 'date'] as const).map((kind) => ({
      kind,
    })),
    { kind: 'decimal', precision: 18, scale: 4 },
    { kind: 'list', element: { kind: 'int64' } },
    { kind: 'struct', fields: [] },
  ];

  it('is there for every kind of column', () => {
    expect(kinds.map((type) => mapColumn(type).type)).toEqual([
      ...['boolean', 'bigint', 'decimal(38,0)', 'double', 'varchar', 'varchar', 'timestamp(6) with time zone', 'date'],
      ...['decimal(18,4)', 'varchar', 'varchar'],
    ]);
  });

  it('differs where a kind of catalog does: PostgreSQL has no U+0000, Delta Lake no microseconds with a zone', () => {
    const { traits: postgres } = catalogOf('crm', 'postgresql');
    const { traits: delta } = catalogOf('lake', 'delta_lake');
    expect(mapColumn({ kind: 'text' }, postgres).limits).toEqual({ nul: 'refused' });
    expect(mapColumn({ kind: 'text' }, catalogOf('lake', 'iceberg').traits).limits).toBeUndefined();
    expect(mapColumn({ kind: 'timestamp' }, delta).type).toBe('timestamp(6)');
    expect(catalogOf('m', 'memory').traits).toMatchObject({ merges: false, replaces: false });
  });

  it.each([
    ['integer', 'bigint', true],
    ['decimal(10,2)', 'decimal(12,2)', true],
    ['decimal(10,2)', 'decimal(12,3)', false],
    ['bigint', 'double', false],
    ['bigint', 'varchar', false],
    ['varchar(20)', 'varchar', true],
  ])('%s becomes %s: %s', (from, to, can) => {
    expect(widens(from, to)).toBe(can);
  });
});

describe('a MERGE', () => {
  const column = (name: string, type = 'varchar') => ({ name, type });
  const table = { name: 'people', columns: [column('id'), column('Name'), column('_synced_at')], key: ['id'] };
  const merge = (absent: Parameters<typeof trinoMerge>[3]) =>
    trinoMerge(table, 'lake.crm.people', 'SELECT * FROM staged', absent);

  it('changes, inserts and deletes by one statement', () => {
    const sql = merge({ type: 'keep' });
    expect(sql).toContain(`WHEN MATCHED AND s."_op" IN ('delete', 'absent') THEN DELETE`);
    expect(sql).toContain(
      `WHEN MATCHED AND s."_op" = 'upsert' THEN UPDATE SET "Name" = s."Name", "_synced_at" = s."_synced_at"`,
    );
    expect(sql).toContain(`WHEN NOT MATCHED AND s."_op" = 'upsert' THEN INSERT`);
    expect(sql).not.toContain('UNION');
  });

  it('of all rows writes only those that differ, and names the absent keys in its source', () => {
    const sql = merge({ type: 'delete' });
    expect(sql).toContain('t."Name" IS DISTINCT FROM s."Name"');
    expect(sql).not.toContain('t."_synced_at" IS DISTINCT');
    expect(sql).toMatch(/UNION ALL SELECT 'absent', o\."id", NULL, NULL/);
  });

  it('marks what is absent where deleted rows stay', () => {
    const sql = merge({ type: 'mark', moment: "TIMESTAMP '2026-01-01 00:00:00 UTC'" });
    expect(sql).toContain(`WHEN MATCHED AND s."_op" = 'absent' THEN UPDATE SET "_deleted_at" = TIMESTAMP`);
    expect(sql).toContain('o."_deleted_at" IS NULL');
  });
});

describe('a table that is replaced', () => {
  const created = (properties: string) => `CREATE TABLE lake.crm.people (\n   id varchar\n)\nWITH (\n${properties}\n)`;

  it('keeps its properties but for the place of its files', () => {
    const text = created(
      "   format = 'PARQUET',\n   format_version = 2,\n   location = 's3://b/x',\n   partitioning = ARRAY['bucket(id, 16)','country']",
    );
    expect(keptProperties(text)).toBe(
      " WITH (format = 'PARQUET', format_version = 2, partitioning = ARRAY['bucket(id, 16)','country'])",
    );
    expect(keptProperties('CREATE TABLE t (\n   id varchar\n)')).toBe('');
    expect(keptProperties(created("   location = 's3://b/x'"))).toBe('');
  });

  it('keeps columns that the load lacks, without values', () => {
    const there = [
      { name: 'id', type: 'varchar' },
      { name: 'note', type: 'bigint' },
    ];
    const sql = replaceSql({ target: 't', rows: 'SELECT 1', there, brought: [{ name: 'ID' }], properties: '' });
    expect(sql).toBe('CREATE OR REPLACE TABLE t AS SELECT "id", CAST(NULL AS bigint) AS "note" FROM (SELECT 1)');
  });
});

describe('a mark', () => {
  const mark = (stream: string, number: number): Mark => ({
    destination: 'd',
    stream,
    watermark: undefined,
    pending: undefined,
    number,
  });

  it('is the latest of those that a catalog without UPDATE keeps', () => {
    expect(latest([mark('a', 2), mark('b', 1), mark('a', 3), mark('a', 1)])).toEqual([mark('a', 3), mark('b', 1)]);
  });
});

it('names of tables are in small letters, and cannot leave their quotes', () => {
  expect(tablePath({ catalog: 'Lake', schema: 'crm' }, 'We"ird')).toBe('"lake"."crm"."we""ird"');
});

it('statements of one destination begin alike in every session, and differ from those of another place', () => {
  const [one, again, other] = [sourceOf(['a', 'b']), sourceOf(['a', 'b']), sourceOf(['ab', ''])];
  expect(one.all).toBe(again.all);
  expect(one.own).not.toBe(again.own);
  expect(one.own.startsWith(one.all)).toBe(true);
  expect(one.all).not.toBe(other.all);
});

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { cannot, catalogOf } from '../../../connectors/trino/catalogs.js';
import { trinoDialect } from '../../../connectors/trino/dialect.js';
import { sourceOf } from '../../../connectors/trino/fence.js';
import { rowText, tablePath } from '../../../connectors/trino/statements.js';
import { mapColumn, valueText } from '../../../connectors/trino/types.js';
import { type ColumnType, csvRows, type MergeTask, widensDecimal } from '../../../src/sdk/index.js';

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
  it('keep commas, quotes and line ends, and distinguish no text from empty text', async () => {
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

  it('cannot leave the literal that holds it', () => {
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
    expect(catalogOf('m', 'memory').traits).toMatchObject({ merges: false });
  });

  it('widens to a decimal of more digits, with as many behind the point', () => {
    const decimal = (precision: number, scale: number) => ({ kind: 'decimal', precision, scale }) as const;
    expect(widensDecimal(decimal(10, 2), decimal(12, 2))).toBe(true);
    expect(widensDecimal(decimal(10, 2), decimal(12, 3))).toBe(false);
    expect(widensDecimal({ kind: 'int64' }, decimal(38, 0))).toBe(false);
  });
});

describe('a MERGE', () => {
  const column = (name: string) => ({ name, type: 'varchar', kind: { kind: 'text' } }) as const;
  const table = {
    name: 'People',
    columns: [column('id'), column('name'), column('t'), column('_synced_at'), column('_deleted_at')],
    key: ['id'],
    isKeyed: true,
  };
  const place = { catalog: 'lake', schema: 'crm' };
  const dialect = trinoDialect(place, catalogOf('lake', 'iceberg').traits, { staging: place, attempt: '1a2b' });
  const merge = (absent: 'keep' | 'delete' | 'mark', more: Partial<MergeTask> = {}) => {
    const write = { type: 'merge', absent, isReload: absent !== 'keep' } as const;
    const names = { target: dialect.table(table.name), stage: 'staged', t: 't_', s: 's' };
    const found = { columns: table.columns, comment: null };
    const task = { table, ...names, found, version: 3, write, empty: [], clear: [], moment: 'M', ...more };
    const [change, ...others] = dialect.merge?.(task) ?? [];
    expect(others).toEqual([]);
    return change?.sql.replaceAll(/\s+/g, ' ') ?? '';
  };

  it('changes, inserts and deletes by one statement', () => {
    const columns = ['id', 'name', 't', '_synced_at', '_deleted_at'];
    expect(merge('keep')).toBe(
      [
        'MERGE INTO "lake"."crm"."people" AS t_ USING staged AS s ON t_."id" = s."id"',
        `WHEN MATCHED AND s."_op" = 'delete' THEN DELETE`,
        'WHEN MATCHED THEN UPDATE SET "name" = s."name", "t" = s."t", "_synced_at" = s."_synced_at", "_deleted_at" = s."_deleted_at"',
        `WHEN NOT MATCHED AND s."_op" = 'upsert' THEN INSERT (${columns.map((name) => `"${name}"`).join(', ')})`,
        `VALUES (${columns.map((name) => `s."${name}"`).join(', ')})`,
      ].join(' '),
    );
  });

  it('of all rows writes only those that differ, and names the absent keys in its source', () => {
    const sql = merge('delete');
    expect(sql).toContain('t_."name" IS DISTINCT FROM s."name"');
    expect(sql).not.toContain('t_."_synced_at" IS DISTINCT');
    expect(sql).toContain(
      `UNION ALL SELECT 'absent', t_."id", NULL, NULL, NULL, NULL FROM "lake"."crm"."people" AS t_ WHERE NOT EXISTS (SELECT 1 FROM staged AS s WHERE t_."id" = s."id")) AS s ON`,
    );
    expect(sql).toContain(`WHEN MATCHED AND s."_op" = 'absent' THEN DELETE`);
  });

  it('marks absent rows if deleted rows are kept, and clears the columns in them that a rule hides', () => {
    expect(merge('mark')).toContain(
      `WHEN MATCHED AND s."_op" = 'absent' THEN UPDATE SET "_deleted_at" = coalesce(t_."_deleted_at", M)`,
    );
    expect(merge('mark')).toContain('AND (t_."_deleted_at" IS NULL))');
    const cleared = merge('keep', { clear: ['name', 'old'], empty: ['old'] });
    expect(cleared).toContain('AND (t_."name" IS NOT NULL OR t_."old" IS NOT NULL))');
    expect(cleared).toContain(`WHEN MATCHED AND s."_op" = 'absent' THEN UPDATE SET "name" = NULL, "old" = NULL`);
    expect(cleared).toContain('"_deleted_at" = s."_deleted_at", "old" = NULL WHEN NOT MATCHED');
  });

  it('is tried with no row where it is not known whether the catalog has it, and needs a primary key in PostgreSQL', () => {
    const of = (kind: string) =>
      trinoDialect(place, catalogOf('lake', kind).traits, { staging: place, attempt: '' }).create?.(table);
    expect(of('iceberg')).toHaveLength(1);
    expect(of('hive')?.[1]).toMatch(/^EXPLAIN \(TYPE VALIDATE\) MERGE INTO .* WHERE false\) AS s/);
    expect(of('postgresql')).toEqual([expect.stringMatching(/system\.execute\(query => .*PRIMARY KEY \("id"\)/)]);
  });
});

describe('a statement that the catalog does not know', () => {
  const notices = (sql: string) =>
    cannot(catalogOf('m', 'memory'), sql, new Error('no modifying', { cause: new Error('of Trino') }));

  it('is named, with a way out', () => {
    expect(notices('EXPLAIN (TYPE VALIDATE) MERGE INTO t')).toMatchObject({
      message: expect.stringContaining('catalog m (memory) cannot MERGE'),
      hint: expect.stringContaining('use mode append'),
    });
    expect(notices('DELETE FROM t').hint).toContain('--recreate');
    expect(notices('ALTER TABLE t').hint).toBeUndefined();
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

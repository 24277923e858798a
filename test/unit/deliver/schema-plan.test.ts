import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import duckdb from '../../../connectors/duckdb/index.js';
import postgres from '../../../connectors/postgres/index.js';
import type { DeliveredColumn } from '../../../src/deliver/delivered-columns.js';
import { planSchema, type SchemaPlan, type SchemaTask } from '../../../src/deliver/schema-plan.js';
import { parseColumnType } from '../../../src/sdk/column-type.js';
import type { TableColumn, TableDescription } from '../../../src/sdk/load.js';
import { Sql } from '../../fixtures/table-driver.js';

const connector = postgres;

function wanted(name: string, duckdbType: string, by: SchemaTask['connector'] = connector): DeliveredColumn {
  const type = parseColumnType(duckdbType);
  return { name, type, duckdbType, value: `"${name}"`, mapping: by.mapColumn(type, { name, type, duckdbType }) };
}

function table(columns: Readonly<Record<string, string>>): TableDescription {
  return { columns: Object.entries(columns).map(([name, type]) => ({ name, type })), isEmpty: false };
}

/** A plan, and the columns for which it asked the destination. */
async function planned(
  found: TableDescription | undefined,
  columns: readonly DeliveredColumn[],
  more: Partial<SchemaTask> & { readonly empty?: readonly string[] } = {},
): Promise<SchemaPlan & { readonly asked: readonly string[] }> {
  const { empty = [], ...rest } = more;
  const asked: string[] = [];
  const plan = await planSchema({
    connector,
    stream: 'members',
    table: 'people',
    found,
    wanted: columns,
    isOurs: true,
    onTypeChange: 'variant_column',
    isEmptyColumn: async (column) => {
      asked.push(column);
      return empty.includes(column);
    },
    ...rest,
  });
  return { ...plan, asked };
}

const targets = ({ columns }: SchemaPlan): TableColumn[] =>
  columns.map(({ name, mapping }) => ({ name, type: mapping.type }));

describe('a table', () => {
  it('that does not exist is created', async () => {
    const columns = [wanted('id', 'VARCHAR'), wanted('points', 'BIGINT')];
    expect(await planned(undefined, columns)).toEqual({
      changes: [{ type: 'create' }],
      columns,
      newVariants: [],
      asked: [],
    });
  });

  it('that has all columns stays as it is, and nothing is asked of it', async () => {
    const columns = [wanted('id', 'VARCHAR'), wanted('points', 'BIGINT')];
    const found = table({ points: 'bigint', note: 'text', id: 'text' });
    expect(await planned(found, columns)).toEqual({ changes: [], columns, newVariants: [], asked: [] });
  });

  it('that has a column as text keeps it, and gets the texts that the values were made of', async () => {
    const asText = { ...wanted('born', 'VARCHAR'), value: `strftime("born", '%d.%m.%Y')` };
    const columns = [wanted('id', 'VARCHAR'), { ...wanted('born', 'DATE'), asText }];
    const plan = await planned(table({ id: 'text', born: 'text' }), columns);
    expect(plan).toEqual({ changes: [], columns: [columns[0], asText], newVariants: [], asked: [] });
    const adopted = await planned(table({ id: 'text', born: 'text' }), columns, { isOurs: false });
    expect(adopted.columns).toEqual(plan.columns);
    expect(targets(await planned(table({ id: 'text', born: 'date' }), columns))).toEqual([
      { name: 'id', type: 'text' },
      { name: 'born', type: 'date' },
    ]);
  });

  it('gets all columns that it lacks at once', async () => {
    const columns = [wanted('id', 'VARCHAR'), wanted('points', 'BIGINT'), wanted('at', 'DATE')];
    const { changes } = await planned(table({ id: 'text' }), columns);
    const added = [
      { name: 'points', type: 'bigint' },
      { name: 'at', type: 'date' },
    ];
    expect(changes).toEqual([{ type: 'add_columns', columns: added }]);
  });

  it('of somebody else is refused if it differs, and taken if it fits or the user says so', async () => {
    const columns = [wanted('id', 'VARCHAR'), wanted('points', 'BIGINT'), wanted('at', 'DATE')];
    const found = table({ id: 'bigint', points: 'numeric' });
    await expect(planned(found, columns, { isOurs: false })).rejects.toMatchObject({
      code: 'table_differs',
      stream: 'members',
      message:
        'table "people" already exists, with another shape: its column "id" is bigint, not text; it has no column "at" (date)',
    });
    const fitting = table({ id: 'text', points: 'numeric', at: 'date', more: 'text' });
    expect((await planned(fitting, columns, { isOurs: false })).changes).toEqual([]);
    expect((await planned(found, columns, { isOurs: true })).changes).not.toEqual([]);
  });
});

describe('a column whose values have a new type', () => {
  it('becomes that type if no value is lost', async () => {
    const plan = await planned(table({ points: 'bigint' }), [wanted('points', 'DOUBLE')]);
    expect(plan.changes).toEqual([
      { type: 'change_type', column: { name: 'points', type: 'double precision' }, from: 'bigint', isEmpty: false },
    ]);
    expect(targets(plan)).toEqual([{ name: 'points', type: 'double precision' }]);
  });

  it('keeps its wider type', async () => {
    const plan = await planned(table({ points: 'numeric' }), [wanted('points', 'BIGINT')]);
    expect([plan.changes, plan.asked]).toEqual([[], []]);
    expect(targets(plan)).toEqual([{ name: 'points', type: 'numeric' }]);
  });

  it('becomes any type if no row has a value in it', async () => {
    const plan = await planned(table({ score: 'text' }), [wanted('score', 'BIGINT[]')], { empty: ['score'] });
    expect(plan.changes).toEqual([
      { type: 'change_type', column: { name: 'score', type: 'jsonb' }, from: 'text', isEmpty: true },
    ]);
  });

  it('gets a variant column that takes all values, and takes those that fit itself', async () => {
    const plan = await planned(table({ score: 'bigint' }), [wanted('score', 'VARCHAR')]);
    expect(plan.changes).toEqual([{ type: 'add_columns', columns: [{ name: 'score__text', type: 'text' }] }]);
    expect(targets(plan)).toEqual([
      { name: 'score', type: 'bigint' },
      { name: 'score__text', type: 'text' },
    ]);
    expect(plan.columns.map(({ value }) => value)).toEqual([expect.stringContaining('TRY_CAST'), '"score"']);
    expect(plan.newVariants).toEqual(['score__text']);
  });

  it('finds its variant column again, and does not count it as new', async () => {
    const plan = await planned(table({ score: 'bigint', score__text: 'text' }), [wanted('score', 'VARCHAR')]);
    expect([plan.changes, plan.newVariants]).toEqual([[], []]);
    expect(targets(plan).map(({ name }) => name)).toEqual(['score', 'score__text']);
  });

  it('fails the stream if the job says so', async () => {
    const failing = planned(table({ score: 'bigint' }), [wanted('score', 'VARCHAR')], { onTypeChange: 'fail' });
    await expect(failing).rejects.toMatchObject({
      code: 'type_changed',
      message: 'column "score" of table "people" is bigint, and its values are text now',
    });
  });

  it('gives its variant a name that every destination takes, cut between characters', async () => {
    const name = 'é'.repeat(40);
    const plan = await planned(table({ [name]: 'bigint' }), [wanted(name, 'TIMESTAMP WITH TIME ZONE')]);
    const [variant = ''] = plan.newVariants;
    expect(variant).toBe(`${'é'.repeat(18)}__timestamp_with_time_zone`);
    expect(Buffer.byteLength(variant)).toBeLessThanOrEqual(63);
  });
});

describe('a column under a name that differs only in case', () => {
  const found = table({ ID: 'text' });

  it('is the same one if the destination folds names', async () => {
    expect((await planned(found, [wanted('id', 'VARCHAR')], { connector: folding(true) })).changes).toEqual([]);
  });

  it('is another one if it does not', async () => {
    expect((await planned(found, [wanted('id', 'VARCHAR')], { connector: folding(false) })).changes).toEqual([
      { type: 'add_columns', columns: [{ name: 'id', type: 'text' }] },
    ]);
  });

  function folding(ignoresCase: boolean): SchemaTask['connector'] {
    return { ...connector, capabilities: { ...connector.capabilities, identifiers: { ignoresCase } } };
  }
});

it('a value goes into its earlier column exactly if that column can store it', async () => {
  const sql = await Sql.open();
  try {
    const cases: [string, string, string[]][] = [
      ['BIGINT', 'VARCHAR', ["'12'", "'012'", "'1.5'", "'x'", "''", 'NULL']],
      ['BIGINT', 'DOUBLE', ['12::DOUBLE', '1.5::DOUBLE', "'nan'::DOUBLE"]],
      ['VARCHAR', 'JSON', [`'"a"'::JSON`, `'7'::JSON`, `'{"a":1}'::JSON`, `'[1]'::JSON`, `'null'::JSON`]],
      ['BOOLEAN', 'VARCHAR', ["'true'", "'perhaps'"]],
    ];
    const found: unknown[] = [];
    for (const [from, to, values] of cases) {
      const column = { ...wanted('v', to, duckdb), value: 'v' };
      const rigid = { ...duckdb, widens: () => false };
      const { columns } = await planned(table({ v: from }), [column], { connector: rigid });
      for (const value of values)
        found.push(
          (await sql.rows(`SELECT (${columns[0]?.value})::VARCHAR AS kept FROM (SELECT ${value} AS v)`))[0]?.kept,
        );
    }
    expect(found).toEqual([
      '12',
      null,
      null,
      null,
      null,
      null,
      null,
      null,
      null,
      'a',
      '7',
      null,
      null,
      null,
      'true',
      null,
    ]);
  } finally {
    sql.close();
  }
});

const types = [
  'BOOLEAN',
  'BIGINT',
  'HUGEINT',
  'DOUBLE',
  'VARCHAR',
  'JSON',
  'DATE',
  'TIMESTAMP WITH TIME ZONE',
  'BIGINT[]',
];
const columnSets = fc.uniqueArray(
  fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd'), type: fc.constantFrom(...types) }),
  {
    selector: ({ name }) => name,
    maxLength: 4,
  },
);

it('a prepared table needs no more changes, whatever it was and had to become', async () => {
  await fc.assert(
    fc.asyncProperty(columnSets, columnSets, fc.subarray(['a', 'b', 'c', 'd']), async (before, now, empty) => {
      const rows = new Map<string, string>(before.map(({ name, type }) => [name, wanted(name, type).mapping.type]));
      const columns = now.map(({ name, type }) => wanted(name, type));
      const plan = await planned(table(Object.fromEntries(rows)), columns, { empty });
      for (const change of plan.changes) {
        if (change.type === 'change_type') rows.set(change.column.name, change.column.type);
        if (change.type !== 'add_columns') continue;
        for (const { name, type } of change.columns) {
          // No existing value is lost.
          expect(rows.has(name)).toBe(false);
          rows.set(name, type);
        }
      }
      for (const { name, type } of targets(plan)) expect([name, rows.get(name)]).toEqual([name, type]);
      const again = await planned(table(Object.fromEntries(rows)), columns, { empty: [] });
      expect([again.changes, again.newVariants, targets(again)]).toEqual([[], [], targets(plan)]);
    }),
  );
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ColumnRule, ColumnRules } from '../../../src/columns/column-rules.js';
import { Kind, mergeShape, type Shape, sqlType } from '../../../src/columns/column-shape.js';
import { type Column, ColumnSet, type StoredColumn } from '../../../src/columns/columns.js';
import { keepEmptyTextsAlike, lostEmptyTexts, sameColumns, widen } from '../../../src/columns/widen.js';
import { sqlText } from '../../../src/core/sql.js';
import { almostValues } from '../../fixtures/almost-values.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';
import { shapeOf } from '../../fixtures/shape-of.js';

const session = await duckdbSession();
const forms = ['table', 'file'] as const;

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

const infersTexts = (rules: ReadonlyMap<string, ColumnRule>) => new ColumnRules(rules, undefined, () => true);

/** The columns after a reading of these values of attribute `v`. */
function read(rules: ColumnRules, values: readonly Json[], before: readonly StoredColumn[] = []): StoredColumn[] {
  const set = rules.begin([], before);
  const column = set.columnFor('attribute', 'v');
  for (const value of values) {
    mergeShape(column.shape, shapeOf(value));
    if (typeof value === 'string') set.addText(column, value);
    set.reshaped(column);
  }
  return rules.keep(set.store());
}

/** One text for one value: without members that are null, and with sorted names. */
function canonical(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonical).join(',')}]`;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return `{${members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`)}}`;
}

const columnOf = (columns: readonly StoredColumn[]) => ColumnSet.restore(columns).list[0] as Column;

function literal(value: Json, { form, type, fileType, shape }: Column, place: 'table' | 'file'): string {
  const sql = place === 'table' ? type : fileType;
  if (value === null) return `NULL::${sql}`;
  if (typeof value === 'string' && type !== 'JSON') return form?.typed(sqlText(value), place) ?? sqlText(value);
  if (type === 'JSON') return `${sqlText(canonical(value))}::JSON`;
  return `from_json(${sqlText(JSON.stringify(value))}, ${sqlText(JSON.stringify(structure(shape)))})::${sql}`;
}

/** How DuckDB is to read a value as JSON. */
function structure(shape: Shape): unknown {
  if (shape.element !== undefined) return [structure(shape.element)];
  if (shape.fields === undefined) return sqlType(shape);
  return Object.fromEntries([...shape.fields].map(([name, field]) => [name, structure(field)]));
}

/** Types and texts of values that are stored as `from` has them, read as `to` has them. */
async function stored(
  values: readonly Json[],
  from: readonly StoredColumn[],
  to: readonly StoredColumn[],
  place: 'table' | 'file',
) {
  const column = columnOf(from);
  const rows = values.map((value, at) => `SELECT ${at} AS position, ${literal(value, column, place)} AS v`);
  const sql = `SELECT typeof(v) AS type, to_json(v)::VARCHAR AS text FROM
    (SELECT position, ${widen(from, to, place)} FROM (${rows.join(' UNION ALL ')})) ORDER BY position`;
  return session.rows(sql);
}

const scalars = fc.oneof(
  fc.boolean(),
  fc.integer(),
  fc.integer().map((n) => n / 4),
  fc.constantFrom('', 'a', '"', '\\', 'ü'),
);
const flat = fc.dictionary(fc.constantFrom('a', 'b', 'c.d'), fc.oneof(scalars, fc.constant(null)), {
  noNullPrototype: true,
});
const kinds: readonly fc.Arbitrary<Json>[] = [
  fc.boolean(),
  fc.integer(),
  fc.integer().map((n) => n / 4),
  fc.constantFrom('', 'a', 'a "b"', 'ü'),
  flat,
  fc.constant({}),
  fc.array(fc.oneof(fc.integer(), fc.constant(null)), { maxLength: 2 }),
  fc.array(flat, { maxLength: 2 }),
  fc.constantFrom([{}], [[]], [[{}], []], [[5]]),
  fc.constant(null),
];
const columns = fc
  .subarray([...kinds], { minLength: 1, maxLength: 3 })
  .chain((some) => fc.array(fc.oneof(...some), { minLength: 1, maxLength: 4 }));

describe('values of a column that became wider', () => {
  it('are those that the wider column would have stored', async () => {
    const rules = new ColumnRules(new Map());
    await fc.assert(
      fc.asyncProperty(columns, columns, fc.constantFrom(...forms), async (values, more, place) => {
        const from = read(rules, values);
        const to = read(rules, more, from);
        expect(await stored(values, from, to, place)).toEqual(await stored(values, to, to, place));
      }),
      { numRuns: 150 },
    );
  });

  it('are their texts again, where texts lose their common format', async () => {
    const rules = infersTexts(new Map());
    const texts = almostValues.filter((text) => !text.includes('\0') && text.isWellFormed());
    const some: fc.Arbitrary<string[]> = fc.oneof(
      fc.array(texts, { minLength: 1, maxLength: 2 }),
      fc.constantFrom<string[]>(['', '5'], ['2024-01-31'], ['1.50', '']),
    );
    await fc.assert(
      fc.asyncProperty(some, some, fc.constantFrom(...forms), async (values, more, place) => {
        const from = read(rules, values);
        const to = read(rules, more, from);
        const wide = columnOf(to);
        const isLost = lostEmptyTexts(from, to).length > 0;
        expect(isLost).toBe(columnOf(from).form !== undefined && wide.form === undefined && values.includes(''));
        expect(keepEmptyTextsAlike(from, to)).toBe(
          !isLost &&
            (columnOf(from).form !== undefined || wide.form === undefined || ![...values, ...more].includes('')),
        );
        const rows = await stored(values, from, to, place);
        const expected = await stored(values, to, to, place);
        // An empty text of a typed column is NULL; the program that makes it text again reads these rows again.
        expect(rows).toEqual(expected.map((row, at) => (isLost && values[at] === '' ? { ...row, text: null } : row)));
        if (wide.form === undefined && !isLost)
          expect(rows.map(({ text }) => text)).toEqual(values.map((text) => JSON.stringify(text)));
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, ColumnRule, (text: string) => string]>([
    ['all', { mask: 'all' }, () => '***'],
    [
      'the last four',
      { mask: 'last4' },
      (text) => [...text].map((letter, at, all) => (all.length > 4 && at >= all.length - 4 ? letter : '*')).join(''),
    ],
  ])('are masked by a rule that is newer: %s', async (_, rule, mask) => {
    await fc.assert(
      fc.asyncProperty(columns, fc.boolean(), async (values, infers) => {
        const make = (rules: ReadonlyMap<string, ColumnRule>) => (infers ? infersTexts(rules) : new ColumnRules(rules));
        const from = read(make(new Map()), values);
        const to = read(make(new Map([['v', rule]])), [], from);
        const rows = await stored(values, from, to, 'table');
        const texts = values.map((value) =>
          value === null ? null : mask(typeof value === 'string' ? value : canonical(value)),
        );
        expect(rows).toEqual(
          texts.map((text) => ({ type: 'VARCHAR', text: text === null ? null : JSON.stringify(text) })),
        );
      }),
      { numRuns: 60 },
    );
  });

  it.each<[string, readonly Json[], readonly (string | null)[]]>([
    ['BIGINT', ['5', 'x', '', '1.5', null], ['5', null, null, null, null]],
    ['DOUBLE', [5, 0.25, null], ['5.0', '0.25', null]],
    ['BOOLEAN', ['true', 'TRUE', 'no'], ['true', null, null]],
    ['DATE', ['2024-02-29', '2023-02-29', '2024-02-29T10:00:00Z'], ['"2024-02-29"', null, null]],
  ])('have the type of a rule that is newer, and are NULL if they do not fit: %s', async (type, values, expected) => {
    const from = read(new ColumnRules(new Map()), values);
    const to = read(new ColumnRules(new Map([['v', { type }]])), [], from);
    const rows = await stored(values, from, to, 'table');
    expect(rows).toEqual(expected.map((text) => ({ type, text })));
  });

  it.each<[string, string, string, readonly (string | null)[]]>([
    [
      'TIMESTAMP WITH TIME ZONE',
      "TIMESTAMPTZ '2024-01-31 10:00:00+00'",
      "unnest(['2024-01-31T12:00:00+02:00', 'soon', ''])",
      ['2024-01-31T10:00:00.000Z', '2024-01-31T10:00:00.000Z', 'soon', null],
    ],
    ['DOUBLE', '5.0::DOUBLE', "unnest(['5.00', '1e1', 'five'])", ['5', '5', '10', 'five']],
  ])('of a type that a value did not fit are its texts, in one spelling: %s', async (type, typed, texts, expected) => {
    const plain: StoredColumn = { place: 'attribute', field: 'v', name: 'v', shape: { k: Kind.string } };
    const to = [{ ...plain, declared: 'VARCHAR', former: type }];
    const select = (from: StoredColumn, values: string) =>
      `SELECT v FROM (SELECT ${widen([from], to, 'table')} FROM (SELECT ${values} AS v))`;
    const rows = await session.rows(`${select({ ...plain, declared: type }, typed)} UNION ALL ${select(plain, texts)}`);
    expect(rows.map(({ v }) => v)).toEqual(expected);
  });

  it('are NULL of the type where rows lack the column', async () => {
    const huge: StoredColumn = { place: 'attribute', field: 'v', name: 'v', shape: { k: Kind.hugeInteger } };
    const types = await Promise.all(
      forms.map((place) => session.rows(`SELECT typeof(v) AS type, v FROM (SELECT ${widen([], [huge], place)})`)),
    );
    expect(types.flat()).toEqual([
      { type: 'HUGEINT', v: null },
      { type: 'DECIMAL(38,0)', v: null },
    ]);
  });
});

const one: StoredColumn = { place: 'attribute', field: 'v', name: 'v', shape: { k: Kind.string }, text: 'BIGINT' };
it.each<[string, readonly StoredColumn[], boolean]>([
  ['nothing', [one], true],
  ['the number of columns', [one, { ...one, field: 'w', name: 'w' }], false],
  ['the name', [{ ...one, name: 'w' }], false],
  ['the field', [{ ...one, field: 'w' }], false],
  ['the place', [{ ...one, place: 'envelope' }], false],
  ['the format of texts', [{ ...one, text: 'BOOLEAN true' }], false],
  ['the type in tables', [{ ...one, text: 'HUGEINT' }], false],
  ['the mask', [{ ...one, rule: { mask: 'all' } }], false],
  ['only the styles of numbers', [{ ...one, text: 'BIGINT|5' }], true],
])('rows need no conversion if the columns are the same: %s differs', (_, other, areSame) => {
  expect(forms.map((place) => sameColumns([one], other, place))).toEqual([areSame, areSame]);
});

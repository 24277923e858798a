import { expect, it } from 'vitest';
import { maxLeaves } from '../../../src/columns/column-shape.js';
import { ColumnSet, columnsSchema, countLeaves, type StoredColumn } from '../../../src/columns/columns.js';
import { widen } from '../../../src/columns/widen.js';
import { observe, parseExact } from '../../../src/extract/scan/exact-json.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

/** A set with one column that has seen these values. */
function seen(...values: string[]): ColumnSet {
  const set = new ColumnSet([]);
  for (const value of values) {
    const column = set.columnFor('attribute', 'v');
    if (observe(parseExact(value), column.shape)) set.reshaped(column);
  }
  return set;
}

const wide = (from: number, leaves: number) =>
  `{"in":{${Array.from({ length: leaves }, (_, n) => `"m${from + n}":[${n}]`).join(',')}}}`;
const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;
const typeOf = (set: ColumnSet) => set.list[0]?.type;

it('an object of too many leaves is JSON, and keeps no list of them', () => {
  expect(typeOf(seen(wide(0, maxLeaves)))).toMatch(/^STRUCT/);
  const beyond = seen(wide(0, maxLeaves), wide(maxLeaves, 1));
  expect(typeOf(beyond)).toBe('JSON');
  expect(JSON.stringify(beyond.store()).length).toBeLessThan(200);
  expect([countLeaves(seen(wide(0, 200)).store()), countLeaves(beyond.store())]).toEqual([200, 1]);
});

it('it is so whatever is first, in one part or in several', () => {
  const parts = [seen(wide(0, 200)), seen(wide(150, 200)), seen('{"in":{}}')];
  for (const order of [parts, [...parts].reverse()]) {
    const set = new ColumnSet([]);
    for (const part of order) set.merge(part);
    expect(set.store()).toEqual(seen(wide(0, 200), wide(150, 200)).store());
    const { version } = set;
    for (const part of order) set.merge(part);
    expect(set.version).toBe(version);
  }
});

it('a struct that gets too many leaves later becomes JSON without loss', async () => {
  const before = seen('{"in":{"m0":[7],"gone":null,"é":"ü"}}');
  const after = ColumnSet.restore(before.store());
  after.merge(seen(wide(0, maxLeaves)));
  const session = await duckdbSession();
  const rows = `(SELECT {'in': {'m0': [7], 'gone': NULL, 'é': 'ü'}} AS v)`;
  const [row] = await session.rows(`SELECT ${widen(before.store(), after.store(), 'table')} FROM ${rows}`);
  expect(JSON.parse(String(row?.v))).toEqual({ in: { m0: [7], é: 'ü' } });
});

it.each([100, 550, 1000])('a value of %i levels is JSON, and its column can be stored and read', (levels) => {
  const set = seen(nested(levels));
  expect(typeOf(set)).toBe('JSON');
  expect(columnsSchema.parse(JSON.parse(JSON.stringify(set.store())))).toEqual(set.store());
});

it('columns of earlier builds, nested as deeply as values may be, can be read', () => {
  let shape: StoredColumn['shape'] = { k: 2 };
  for (let level = 0; level < 1000; level += 1)
    shape = level % 2 === 0 ? { k: 64, e: shape } : { k: 128, f: [['a', shape]] };
  const stored = [{ place: 'attribute', field: 'v', name: 'v', shape }];
  expect(columnsSchema.parse(stored)).toEqual(stored);
  for (const wrong of [
    {},
    { k: 'x' },
    { k: 1, e: null },
    { k: 1, f: [['a']] },
    { k: 1, f: [[1, { k: 1 }]] },
    { k: 1, f: {} },
  ])
    expect(columnsSchema.safeParse([{ ...stored[0], shape: wrong }]).success).toBe(false);
});

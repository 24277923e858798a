import { expect, it } from 'vitest';
import { Kind, type StoredShape } from '../../../src/columns/column-shape.js';
import type { StoredColumn } from '../../../src/columns/columns.js';
import { widen } from '../../../src/columns/widen.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

const column = (shape: StoredShape): StoredColumn => ({ place: 'attribute', field: 'v', name: 'v', shape });
const empty: StoredShape = { k: Kind.struct };
const filled: StoredShape = { k: Kind.struct, f: [['x', { k: Kind.safeInteger }]] };
const list = (e: StoredShape): StoredShape => ({ k: Kind.list, e });

it.each([
  ['an object', empty, filled, '{}', '{"x":null}'],
  ['a list of objects', list(empty), list(filled), '[{},{}]', '[{"x":null},{"x":null}]'],
  ['an empty list', list(empty), list(filled), '[]', '[]'],
  ['a list of lists', list(list(empty)), list(list(filled)), '[[{}],[]]', '[[{"x":null}],[]]'],
])('%s keeps its form when its empty objects get members', async (_, before, now, stored, expected) => {
  const columns = widen([column(before)], [column(now)], 'table');
  const [row] = await session.rows(
    `SELECT to_json(v)::VARCHAR AS v FROM (SELECT ${columns} FROM (SELECT '${stored}'::JSON AS v))`,
  );
  expect(row?.v).toBe(expected);
});

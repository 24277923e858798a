import { afterAll, beforeAll, expect, it } from 'vitest';
import { comparable } from '../../../src/snapshot/large-rows.js';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeAll(async () => {
  snapshots = await Snapshots.open();
});
afterAll(() => snapshots.close());

const lists = ['NULL', '[]', '[NULL]', "['NULL']", "['']", "['a, b']", "['a', 'b']", "['a', NULL]", "['[]']"];
const objects = ['NULL', '{a: NULL, b: NULL}', "{a: '', b: NULL}", '{a: NULL, b: []}', '{a: NULL, b: [NULL]}'];
const texts = ['NULL', "''", "'NULL'", "' '", "'a'", "'A'"];

it.each([
  ['VARCHAR', texts],
  ['VARCHAR[]', lists],
  ['STRUCT(a VARCHAR, b VARCHAR[])', objects],
])('no two values of %s are taken for equal', async (type, values) => {
  const rows = values.map((value) => `SELECT (${value})::${type} AS v`).join(' UNION ALL ');
  const [found] = await snapshots.query(`SELECT count(DISTINCT ${comparable(type, 'v')})::INTEGER AS n FROM (${rows})`);
  expect(found?.n).toBe(values.length);
});

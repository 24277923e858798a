import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { refusedJson } from '../../../connectors/mysql/refused-json.js';
import type { LoadColumn } from '../../../src/sdk/index.js';

const folder = await mkdtemp(join(tmpdir(), 'cdsync-refused-json-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

const columns = ['longtext', 'json', 'json'].map((targetType, index) => ({ name: `c${index}`, targetType }));

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

const brackets = fc.string({ unit: fc.constantFrom('[', ']', '{', '}', '"', '\\', ',', '\n', 'é'), maxLength: 40 });
const value = fc.tuple(fc.nat(110), brackets, fc.boolean()).map(([levels, text, isList]) => {
  let nested: unknown = text;
  for (let level = 0; level < levels; level += 1) nested = isList ? [text, nested] : { [text]: nested };
  return nested;
});

const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;

async function written(rows: readonly (readonly string[])[]): Promise<string> {
  const path = join(folder, 'rows.csv');
  await writeFile(path, rows.map((row) => `${row.map(quoted).join(',')}\n`).join(''));
  return path;
}

const placed = (path: string, errno: number) => refusedJson(path, columns as unknown as LoadColumn[], errno);

it.each([
  { errno: 4038, maxDepth: 31 },
  { errno: 3157, maxDepth: 100 },
])('JSON that is nested deeper than the server takes is found in each column ($errno)', async ({ errno, maxDepth }) => {
  const property = fc.asyncProperty(fc.array(fc.tuple(brackets, value, value), { maxLength: 8 }), async (rows) => {
    const path = await written(rows.map(([text, one, other]) => [text, JSON.stringify(one), JSON.stringify(other)]));
    const expected = rows.flatMap(([, one, other], index) =>
      [one, other].flatMap((each, at) => (depthOf(each) > maxDepth ? [{ row: index + 1, column: `c${at + 1}` }] : [])),
    );
    expect(await placed(path, errno)).toEqual(expected);
  });
  await fc.assert(property);
});

it('numbers that no double holds and halves of characters are found, not their like in texts', async () => {
  const fine = [
    '[1e308]',
    '["1e400"]',
    '{"1e400": 0.1e-400}',
    '["\\ud83d\\ude00"]',
    '["\\\\ud83d"]',
    'NULL',
    '[-12.5e+3]',
  ];
  const bad = ['[1e400]', '{"a": -1.5E309}', `[${'9'.repeat(310)}]`, '["\\ud83d"]', '["x\\ude00"]'];
  const path = await written([...fine, ...bad].map((json) => ['1e400', json, '1']));
  expect(await placed(path, 3140)).toEqual(bad.map((_, index) => ({ row: fine.length + index + 1, column: 'c1' })));
});

it('of values that are too long for a packet the longest is found; other errors are about no place', async () => {
  const path = await written([
    ['x'.repeat(99), '[1]', '[1, 2]'],
    ['', '[1, 2, 3]', '1'],
  ]);
  expect(await placed(path, 1301)).toEqual([{ row: 2, column: 'c1', bytes: 9 }]);
  expect(await placed(path, 1062)).toEqual([]);
});

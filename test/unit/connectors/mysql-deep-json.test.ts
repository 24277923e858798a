import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { deepRows } from '../../../connectors/mysql/deep-json.js';
import type { LoadColumn } from '../../../src/sdk/index.js';

const folder = await mkdtemp(join(tmpdir(), 'cdsync-deep-json-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

const columns = ['longtext', 'json', 'json'].map((targetType, index) => ({ name: `c${index}`, targetType }));

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

const brackets = fc.string({ unit: fc.constantFrom('[', ']', '{', '}', '"', '\\', ',', '\n', 'é'), maxLength: 40 });
const value = fc.tuple(fc.nat(40), brackets, fc.boolean()).map(([levels, text, isList]) => {
  let nested: unknown = text;
  for (let level = 0; level < levels; level += 1) nested = isList ? [text, nested] : { [text]: nested };
  return nested;
});

it('JSON that is nested deeper than MariaDB takes is found, with its first column', async () => {
  const property = fc.asyncProperty(fc.array(fc.tuple(brackets, value, value), { maxLength: 8 }), async (rows) => {
    const path = join(folder, 'rows.csv');
    const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
    const lines = rows.map(([text, one, other]) => [text, JSON.stringify(one), JSON.stringify(other)].map(quoted));
    await writeFile(path, lines.map((line) => `${line.join(',')}\n`).join(''));
    const expected = rows.flatMap(([, one, other], index) => {
      const at = [one, other].findIndex((each) => depthOf(each) > 31);
      return at < 0 ? [] : [{ row: index + 1, column: `c${at + 1}` }];
    });
    expect(await deepRows(path, columns as unknown as LoadColumn[])).toEqual(expected);
  });
  await fc.assert(property);
});

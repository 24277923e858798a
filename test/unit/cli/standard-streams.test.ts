import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeData } from '../../../src/cli/standard-streams.js';
import { entriesBelow } from '../../../src/core/folders.js';
import { table } from '../../../src/output/table.js';

const root = join(import.meta.dirname, '..', '..', '..');

test('only one file of the program writes to standard output and standard error', async () => {
  const writers: string[] = [];
  for (const folder of ['src', 'connectors']) {
    for (const entry of await entriesBelow(join(root, folder))) {
      if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
      const path = join(entry.parentPath, entry.name);
      const text = await readFile(path, 'utf8');
      if (/\bconsole\.|std(out|err)\.write\b|process\[/.test(text)) writers.push(entry.name);
    }
  }
  expect(writers).toEqual(['standard-streams.ts']);
});

test('data is exact for a program, and visible on a terminal', () => {
  const written = (isTTY: boolean) => {
    let all = '';
    const write = (text: string) => {
      all += text;
    };
    writeData('id,name\n1,\x1b[2J\r\n', { isTTY, write });
    return all;
  };
  expect(written(false)).toBe('id,name\n1,\x1b[2J\r\n');
  expect(written(true)).toBe('id,name\n1,\\x1b[2J\\r\n');
});

test('a cell of a table stays on its line, and its column is as wide as the text that is shown', () => {
  expect(
    table(
      ['na\nme', 'n'],
      [
        ['a\x1b[2Jb', '1'],
        ['c\nd', '2'],
      ],
    ),
  ).toEqual(['na\\nme     n', 'a\\x1b[2Jb  1', 'c\\nd       2']);
});

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { connectors } from '../../connectors/index.js';

it('names each connector once, and calls a fake a fake', async () => {
  const page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'performance.md'), 'utf8');
  const lines = [...page.matchAll(/^\| `(\w+)` \| (.+?) \|/gm)].map(([, name, against]) => ({
    name,
    isFake: against?.includes('**fake**'),
  }));
  expect(lines.map(({ name }) => name).sort()).toEqual(connectors.map(({ name }) => name).sort());
  expect(lines.filter(({ isFake }) => isFake).map(({ name }) => name)).toEqual(['snowflake', 'bigquery']);
});

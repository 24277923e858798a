import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { addErasure, readErasures } from '../../../src/storage/erasures.js';
import { JobLayout } from '../../../src/storage/layout.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'erasures-'));
});
afterEach(() => rm(root, { recursive: true }));

it('erasures have only texts that a row of the stream may have as its key', async () => {
  const layout = new JobLayout(root, 'nightly');
  const keys = ['p-1', '["vip","p-1"]', '["vip"]', '{"vip":"p-1"}', '["vip"', '["vip",null]'];
  await addErasure(layout, 'vip', keys, 1);
  await addErasure(layout, 'vip', null, 2);
  const read = async (key: readonly string[]) =>
    (await readErasures(layout, 'vip', key)).map((erasure) => erasure.keys);
  expect(await read(['segment', 'profile'])).toEqual([['["vip","p-1"]', '["vip",null]'], null]);
  expect(await read(['id'])).toEqual([keys, null]);
});

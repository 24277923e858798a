import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { FolderStore } from '../../../connectors/files/folder-store.js';
import { type Manifest, TableSets } from '../../../connectors/files/manifest.js';

const manifest = (set: number): Manifest => ({
  version: 2,
  table: 'people',
  set,
  format: 'csv',
  partition_by: [],
  schema: [{ name: 'id', type: 'VARCHAR' }],
  rows: 0,
  live_rows: 0,
  files: [],
  destination: 'out',
  stream: 'people',
  stamp: null,
  record: {},
});

it('a delivery that pauses before it publishes does not hide the later set of another one', async () => {
  const root = await mkdtemp(join(tmpdir(), 'cdsync-manifest-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const others = new TableSets(await FolderStore.open(root, 0o600), 'people');
  const pausing = await FolderStore.open(root, 0o600);
  const replaceNow = pausing.replace.bind(pausing);
  let pauses = 1;
  pausing.replace = async (path, text, tag) => {
    if (pauses-- > 0) {
      expect(await others.commit(manifest(4))).toBe(true);
      await others.publish(manifest(4));
      // As a folder does that has compared the version before.
      tag = (await pausing.read(path))?.tag;
    }
    return replaceNow(path, text, tag);
  };
  const sets = new TableSets(pausing, 'people');
  expect(await sets.commit(manifest(3))).toBe(true);
  await sets.publish(manifest(3));
  expect(JSON.parse(await readFile(join(root, 'people', 'manifest.json'), 'utf8'))).toMatchObject({ set: 4 });
  expect(await sets.newest()).toMatchObject({ set: 4 });
});

it('of two loads that end at the same moment, each has its line in loads.jsonl', async () => {
  const root = await mkdtemp(join(tmpdir(), 'cdsync-manifest-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const lined = (set: number): Manifest => ({
    ...manifest(set),
    line: { load: `1:${set}`, committed_at: `2026-01-0${set}T00:00:00.000Z` },
  });
  const [first, second] = [await FolderStore.open(root, 0o600), await FolderStore.open(root, 0o600)];
  const replaceNow = second.replace.bind(second);
  second.replace = async (path, text) => {
    await new TableSets(first, 'people').note([lined(1)]);
    // As a folder does that has compared the version before.
    return replaceNow(path, text, (await second.read(path))?.tag);
  };
  await new TableSets(second, 'people').note([lined(1), lined(2)]);
  await new TableSets(first, 'people').note([lined(2)]);
  const lines = (await readFile(join(root, 'people', 'loads.jsonl'), 'utf8')).trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line).load)).toEqual(['1:1', '1:2']);
});

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Checkpoints } from '../../../src/object-store/checkpoint.js';
import { LocalCache } from '../../../src/object-store/local-cache.js';
import type { ObjectStore } from '../../../src/object-store/objects.js';
import { isLink } from '../../../src/object-store/state.js';

const journal = '.cdsync/runs/r1/streams/s/journal.jsonl';

let folder: string;
let objects: Map<string, Buffer>;
let checkpoints: Checkpoints;
let write: (text: string) => Promise<void>;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-checkpoint-'));
  const cache = await LocalCache.open(folder, 'job', 's3://bucket/job');
  objects = new Map();
  const store = {
    uploadPacked: async (bytes: Buffer) => {
      const object = `objects/${objects.size}.z`;
      objects.set(object, bytes);
      return { object, bytes: bytes.length };
    },
  };
  checkpoints = new Checkpoints(cache, store as unknown as ObjectStore, new Set());
  write = async (text) => {
    const path = cache.path(journal);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  };
});
afterEach(() => rm(folder, { recursive: true }));

/** The journal as another machine would put it together from its objects. */
async function uploaded(): Promise<string> {
  const [entry] = (await checkpoints.upload()) ?? [];
  if (entry === undefined || isLink(entry) || entry.pieces === undefined) throw new Error('there is no journal');
  const { pieces } = entry;
  const parts = pieces.ranges.map(([index, from, bytes]) => {
    const { object } = pieces.objects[index] as { object: string };
    return objects.get(object)?.subarray(from, from + bytes) ?? Buffer.alloc(0);
  });
  return Buffer.concat(parts).toString();
}

test('a journal that grows is uploaded piece by piece, up to its last whole line', async () => {
  await write('one\n');
  expect(await uploaded()).toBe('one\n');
  await write('one\ntwo\nthr');
  expect(await uploaded()).toBe('one\ntwo\n');
  expect([...objects.values()].map(String)).toEqual(['one\n', 'two\n']);
});

test('the longer journal of a second reading replaces that of the first', async () => {
  await write('one\n');
  expect(await uploaded()).toBe('one\n');
  await write('another\njournal\n');
  expect(await uploaded()).toBe('another\njournal\n');
  await write('short\n');
  expect(await uploaded()).toBe('short\n');
});

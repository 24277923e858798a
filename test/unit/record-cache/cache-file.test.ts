import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  cachePaths,
  cleanCacheFiles,
  linkCacheFile,
  promoteCacheFile,
  readCacheFile,
  UnusableCache,
  writeCacheFile,
} from '../../../src/record-cache/cache-file.js';
import { RecordHashTable } from '../../../src/record-cache/hash-table.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-test-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const anyone = () => undefined;
const id = 'a'.repeat(32);
const hashes = Array.from({ length: 200 }, (_, index) => Uint32Array.from([index * 7919, index + 1, index, 5]));

/** Writes a cache file of 200 hashes, with its keys. */
async function write(own = id): Promise<void> {
  const set = RecordHashTable.empty(hashes.length);
  for (const hash of hashes) set.add(hash, 0);
  const { image, keys } = cachePaths(folder);
  await writeFile(keys(own), `keys of ${own}`);
  const sha256 = createHash('sha256').update(`keys of ${own}`).digest('hex');
  await writeCacheFile(image, set, {
    id: own,
    store_id: 's',
    run_id: 'r',
    fingerprint: 'f',
    secret: '00'.repeat(32),
    separator: { bytes: 'fX0s', before: 2, next: 3 },
    verified_at: '2026-11-01T00:00:00.000Z',
    keys: { rows: hashes.length, sha256 },
  });
}

describe('a cache file', () => {
  test('has every hash that was written, and no other', async () => {
    await write();
    const found = await readCacheFile(folder, anyone);
    expect(found?.header).toMatchObject({ id, count: 200, separator: { before: 2, next: 3 } });
    expect(hashes.every((hash) => (found?.table.find(hash, 0) ?? -1) >= 0)).toBe(true);
    expect(found?.table.find(Uint32Array.from([7919, 3, 1, 5]), 0)).toBe(-1);
  });

  test('is not used if any of its bytes is another', async () => {
    await write();
    const { image } = cachePaths(folder);
    const bytes = await readFile(image);
    // Every byte of the header, and some of the table.
    const end = bytes.indexOf(0, 20);
    const places = [...Array(end).keys(), ...Array.from({ length: 40 }, (_, index) => 4096 + index * 101)];
    for (const place of places) {
      const damaged = Buffer.from(bytes);
      damaged[place] = (damaged[place] as number) ^ 1;
      await writeFile(image, damaged);
      await expect(readCacheFile(folder, anyone), `byte ${place}`).rejects.toThrow(UnusableCache);
    }
  });

  test.each([
    ['is empty', (path: string) => truncate(path, 0), 'cut short'],
    ['is cut short', (path: string) => truncate(path, 5000), 'cut short'],
    ['is something else', (path: string) => writeFile(path, 'x'.repeat(9000)), 'damaged'],
    ['may not be read', (path: string) => (process.getuid?.() === 0 ? rm(path) : chmod(path, 0)), 'cannot be read'],
  ])('is not used if it %s', async (_, damage, why) => {
    await write();
    await damage(cachePaths(folder).image);
    const found = readCacheFile(folder, anyone);
    // Nothing is forbidden to root, so there the file is missing instead.
    if (why === 'cannot be read' && process.getuid?.() === 0) return expect(await found).toBeUndefined();
    return expect(found).rejects.toThrow(why);
  });

  test('is not used without its keys', async () => {
    await write();
    await writeFile(cachePaths(folder).keys(id), 'others');
    await expect(readCacheFile(folder, anyone)).rejects.toThrow('keys of the cache file are missing');
  });

  test('stays in a folder that has links to it when another takes its place', async () => {
    const [home, run, next] = ['home', 'run', 'next'].map((name) => join(folder, name)) as [string, string, string];
    for (const each of [home, run, next]) await mkdir(each);
    const all = folder;
    folder = home;
    await write();
    await linkCacheFile(home, run, id);
    folder = next;
    await write('b'.repeat(32));
    folder = all;
    await promoteCacheFile(next, home, 'b'.repeat(32));
    expect((await readCacheFile(run, anyone))?.header.id).toBe(id);
    expect((await readCacheFile(home, anyone))?.header.id).toBe('b'.repeat(32));
    expect((await readdir(home)).sort()).toEqual([`${'b'.repeat(32)}.parquet`, 'known.bin']);
  });

  test('is tidied away with all that does not belong to it', async () => {
    const all = folder;
    for (const name of ['whole', 'torn', 'lost']) {
      folder = join(all, name);
      await mkdir(folder);
      await write();
      await writeFile(join(folder, `${'c'.repeat(32)}.parquet`), 'left behind');
    }
    await truncate(cachePaths(join(all, 'torn')).image, 100);
    await rm(cachePaths(join(all, 'lost')).image);
    folder = all;
    await cleanCacheFiles(all);
    expect(await readdir(all)).toEqual(['whole']);
    expect((await readdir(join(all, 'whole'))).sort()).toEqual([`${id}.parquet`, 'known.bin']);
  });
});

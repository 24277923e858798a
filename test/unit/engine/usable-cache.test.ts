import { describe, expect, test } from 'vitest';
import { hashVersion } from '../../../src/columns/row-hash.js';
import { cacheOptionsFor } from '../../../src/engine/run/usable-cache.js';
import { type CacheHeader, UnusableCache } from '../../../src/record-cache/cache-file.js';
import { CacheMemory } from '../../../src/record-cache/cache-memory.js';

const slotBytes = 16;

/** Streams of one run with 128 MB for caches. */
function run() {
  const caches = new CacheMemory(128_000_000);
  const context = {
    job: { recognition: { enabled: true, verifyEvery: 1000 } },
    config: { service: {} },
    clock: { now: () => 0 },
    layout: { known: (stream: string) => stream },
    full: false,
    rekey: false,
    caches,
  };
  const use = (name: string, megabytes: number, about: Partial<CacheHeader> = {}) => {
    const task = {
      config: { name, contract: { columns: 'add', types: 'widen' }, reads: { filter: new Map() } },
      source: { kind: 'list', identity: 'i', key: ['id'] },
      rules: { identity: 'r' },
      previous: { run_id: 'run', hash_version: hashVersion('v1') },
      storeId: 'store',
      duckdbVersion: 'v1',
    };
    const options = cacheOptionsFor(context as never, task as never);
    if (options === undefined) throw new Error('the stream has no cache');
    const slots = (megabytes * 1_000_000) / slotBytes;
    const { fingerprint } = options;
    const verified_at = new Date(0).toISOString();
    const header = { store_id: 'store', run_id: 'run', fingerprint, verified_at, count: slots, slots, ...about };
    options.accept(header as CacheHeader);
  };
  return { caches, use };
}

describe('the record caches of a run', () => {
  test('share a part of memory_mb: a stream that finds too little converts every record', async () => {
    const { use, caches } = run();
    use('first', 60);
    use('second', 60);
    const third = () => use('third', 60);
    expect(third).toThrow(UnusableCache);
    expect(third).toThrow(
      'the record cache takes 60 MB, and of the part of `memory_mb` that all caches share, 8 MB are free',
    );
    use('small', 8);
    // Read again from its start, a stream has no cache any more.
    await caches.hold('first', 0);
    use('third', 60);
  });

  test('count with all of their slots, used or not', () => {
    expect(() => run().use('shrunk', 200, { count: 10 })).toThrow('takes 200 MB');
  });

  test('reserve nothing if the run must not use them', () => {
    const { use, caches } = run();
    expect(() => use('other', 100, { run_id: 'another' })).toThrow(UnusableCache);
    expect(caches.freeFor('next')).toBe(128_000_000);
  });
});

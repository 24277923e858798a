import { describe, expect, test } from 'vitest';
import {
  deliveryShare,
  describePlan,
  memoryForCommit,
  memoryNotice,
  planMemory,
} from '../../../src/storage/memory-plan.js';

describe('memory_mb is divided', () => {
  test.each([
    // memory_mb, threads; bodies; caches; converters; keys; DuckDB; first commit: MB x threads
    [128, 1, 32_000_000, 64_000_000, 1, 320_000, 108, 108, 1],
    [256, 2, 64_000_000, 128_000_000, 2, 640_000, 217, 217, 1],
    [768, 2, 192_000_000, 384_000_000, 2, 1_920_000, 652, 256, 1],
    [768, 3, 192_000_000, 384_000_000, 2, 1_920_000, 652, 256, 1],
    [2048, 3, 512_000_000, 1_024_000_000, 2, 5_120_000, 1740, 768, 3],
    [16_384, 8, 4_096_000_000, 8_192_000_000, 2, 40_960_000, 13_926, 2048, 8],
  ])('of %d MB and %d threads', (memoryMb, threads, bodies, caches, converterLanes, keysAtOnce, all, first, few) => {
    expect(planMemory({ memoryMb, threads })).toEqual({
      bodyBytes: bodies,
      cacheBytes: caches,
      converterLanes,
      keysAtOnce,
      duckdb: {
        other: { memoryMb: all, threads },
        'writing files': { memoryMb: all, threads: 1 },
        comparing: { memoryMb: all, threads },
        commit: { memoryMb: all, threads },
        'first commit': { memoryMb: first, threads: few },
      },
    });
  });

  test.each([
    [768, 900_000, 652],
    [768, 168_000_000, 510],
    [768, 9e9, 261],
    [2048, 168_000_000, 1598],
    [2048, 9e9, 696],
  ])('between a comparison in %d MB and record caches of %d bytes', (memoryMb, cacheBytes, comparing) => {
    const plan = planMemory({ memoryMb, threads: 2 }, { cacheBytes });
    expect(plan.duckdb.comparing).toEqual({ memoryMb: comparing, threads: 2 });
    expect(plan.duckdb.other).toEqual(planMemory({ memoryMb, threads: 2 }).duckdb.other);
  });

  test.each([
    [768, 20_000, 420],
    [768, 1_000_000, 652],
    [2048, 20_000, 1260],
    [2048, 1_000_000, 1740],
    [16_384, 20_000, 1260],
  ])('for a first commit in %d MB of rows with %d bytes', (memoryMb, recordBytes, first) => {
    expect(planMemory({ memoryMb, threads: 3 }, { recordBytes }).duckdb['first commit'].memoryMb).toBe(first);
  });

  test('for a first commit of many tables: DuckDB keeps a block for each column', () => {
    const first = (writtenColumns: number) =>
      planMemory({ memoryMb: 768, threads: 2 }, { writtenColumns }).duckdb['first commit'].memoryMb;
    expect([30, 300, 9_900, 100_000].map(first)).toEqual([257, 268, 652, 652]);
  });

  test('and later commits of many tables have one thread', () => {
    const threads = (writtenColumns: number) =>
      planMemory({ memoryMb: 768, threads: 2 }, { writtenColumns }).duckdb.commit.threads;
    expect([120, 1200, 2000, 40_000].map(threads)).toEqual([2, 2, 1, 1]);
  });

  test('and a commit that fails says how much it needs', () => {
    expect([33, 300 * 33, 4 * 300 * 33].map(memoryForCommit)).toEqual([400, 800, 2200]);
  });

  test('among destinations: each has what its columns need, with one thread if they are many, and takes no more than there is', () => {
    const share = (destinations: number, leaves: number, hasOwn: boolean) => {
      const { takenMb, connectorMb, threads } = deliveryShare(
        { memoryMb: 768, threads: 2 },
        { destinations, leaves, hasOwn },
      );
      return [takenMb, connectorMb, threads];
    };
    expect([1, 2, 5, 7].map((destinations) => share(destinations, 30, false))).toEqual([
      [768, 768, 2],
      [384, 384, 2],
      [158, 158, 2],
      [158, 158, 2],
    ]);
    expect(share(1, 30, true)).toEqual([768, 384, 2]);
    expect(share(3, 200, true)).toEqual([656, 328, 1]);
    expect(share(3, 5000, true)).toEqual([768, 5128, 1]);
  });

  test('and the limits grow with tables of more than 500 columns', () => {
    const limits = (widestColumns: number) =>
      Object.values(planMemory({ memoryMb: 768, threads: 3 }, { widestColumns }).duckdb).map(
        ({ memoryMb }) => memoryMb,
      );
    expect(limits(500)).toEqual([652, 652, 652, 652, 256]);
    expect(limits(5000)).toEqual([2291, 2291, 2291, 2291, 1895]);
  });
});

test('a plan has one line', () => {
  expect(describePlan(planMemory({ memoryMb: 768, threads: 2 }))).toBe(
    'memory plan: responses 192 MB, record caches 384 MB, DuckDB 652 MB with 2 threads (first commit: 256 MB with 1 thread), 2 converters, 1,920,000 keys per join',
  );
});

test.each([
  [0, undefined],
  [2 ** 64, undefined],
  [1_024_000_000, undefined],
  [
    536_870_912,
    'this process may use 536 MB, and a run up to 1,024 MB: set `resources.memory_mb` to 280, or raise its limit',
  ],
  [300_000_000, 'this process may use 300 MB, and a run up to 1,024 MB: raise its limit'],
])('says so if a cgroup of %i bytes has less memory than a run may take', (limitBytes, notice) => {
  expect(memoryNotice({ memoryMb: 768 }, limitBytes)).toBe(notice);
});

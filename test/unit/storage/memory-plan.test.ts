import { describe, expect, test } from 'vitest';
import {
  deliveryShare,
  describePlan,
  memoryForCommit,
  memoryNotice,
  planMemory,
} from '../../../src/storage/memory-plan.js';

const sizes = [440, 512, 640, 768, 1024, 2048, 4500, 16_384, 1_048_576];

describe('memory_mb is one figure', () => {
  test.each(sizes)('%d MB: the parts of one phase are no more than that together', (memoryMb) => {
    for (const threads of [1, 2, 8])
      for (const cached of [0, 0.1, 0.5, 1])
        for (const recordBytes of [0, 900, 1_000_000])
          for (const writtenColumns of [0, 300, 40_000]) {
            const resources = { memoryMb, threads };
            const cacheBytes = Math.floor(planMemory(resources).cacheBytes * cached);
            const plan = planMemory(resources, { cacheBytes, recordBytes, writtenColumns });
            for (const [phase, duckdb] of Object.entries(plan.duckdb)) {
              const bodies = phase === 'reading' ? plan.bodyBytes / 1e6 : 0;
              // DuckDB exceeds its limit by a sixth.
              const all = plan.processMb + cacheBytes / 1e6 + bodies + duckdb.memoryMb / 0.85;
              // With other phases at once, the smallest limit applies.
              if (phase !== 'other') expect([phase, all <= memoryMb + 2]).toEqual([phase, true]);
            }
            expect(plan.deliveriesMb + plan.processMb).toBe(memoryMb);
          }
  });

  test.each([
    // memory_mb, threads; process; bodies; caches; converters; keys; DuckDB: all, reading, first commit with its threads
    [128, 1, 51, 32, 16, 1, 432_000, 108, 108, 108, 1],
    [256, 2, 102, 64, 16, 2, 520_000, 130, 108, 130, 1],
    [512, 2, 200, 128, 56, 2, 1_060_000, 265, 156, 256, 1],
    [768, 2, 200, 192, 248, 2, 1_928_000, 482, 319, 256, 1],
    [2048, 3, 200, 512, 1024, 2, 6_280_000, 1570, 1135, 768, 3],
    [16_384, 8, 200, 512, 8192, 2, 55_024_000, 13_756, 13_321, 2048, 8],
  ])('of %d MB and %d threads', (memoryMb, threads, process, bodies, caches, lanes, keys, all, reading, first, few) => {
    expect(planMemory({ memoryMb, threads })).toEqual({
      processMb: process,
      deliveriesMb: memoryMb - process,
      bodyBytes: bodies * 1e6,
      cacheBytes: caches * 1e6,
      converterLanes: lanes,
      keysAtOnce: keys,
      columnsAtOnce: 10 * all,
      duckdb: {
        other: { memoryMb: all, threads },
        reading: { memoryMb: reading, threads },
        'writing files': { memoryMb: all, threads: 1 },
        comparing: { memoryMb: all, threads },
        commit: { memoryMb: all, threads },
        'first commit': { memoryMb: first, threads: few },
      },
    });
  });

  test('and DuckDB leaves the record caches their memory, down to the least that it works with', () => {
    const comparing = (memoryMb: number, cacheBytes: number) =>
      planMemory({ memoryMb, threads: 2 }, { cacheBytes }).duckdb.comparing.memoryMb;
    expect([900_000, 100_000_000, 248_000_000, 9e9].map((bytes) => comparing(768, bytes))).toEqual([
      481, 397, 272, 108,
    ]);
    expect([100_000_000, 1_024_000_000].map((bytes) => comparing(2048, bytes))).toEqual([1485, 700]);
  });

  test.each([
    [768, 20_000, 420],
    [768, 1_000_000, 482],
    [2048, 20_000, 1260],
    [2048, 1_000_000, 1570],
    [16_384, 20_000, 1260],
  ])('for a first commit in %d MB of rows with %d bytes', (memoryMb, recordBytes, first) => {
    expect(planMemory({ memoryMb, threads: 3 }, { recordBytes }).duckdb['first commit'].memoryMb).toBe(first);
  });

  test('for a first commit of many tables: DuckDB keeps a block for each column', () => {
    const first = (writtenColumns: number) =>
      planMemory({ memoryMb: 768, threads: 2 }, { writtenColumns }).duckdb['first commit'].memoryMb;
    expect([30, 300, 9_900, 100_000].map(first)).toEqual([257, 268, 482, 482]);
  });

  test('and later commits of many tables have one thread', () => {
    const threads = (writtenColumns: number) =>
      planMemory({ memoryMb: 768, threads: 2 }, { writtenColumns }).duckdb.commit.threads;
    expect([120, 1200, 2000, 40_000].map(threads)).toEqual([2, 2, 1, 1]);
  });

  test('and a commit that fails says how much it needs', () => {
    expect([33, 300 * 33, 4 * 300 * 33].map(memoryForCommit)).toEqual([600, 1000, 2400]);
  });

  test('among destinations: each has what its columns need, with one thread if they are many, and takes no more than there is', () => {
    const share = (destinations: number, leaves: number, hasOwn: boolean) => {
      const resources = { memoryMb: 768, threads: 2 };
      const { takenMb, ownMb, connectorMb, threads } = deliveryShare(resources, { destinations, leaves, hasOwn });
      expect(planMemory({ memoryMb: ownMb, threads, isShare: true }).duckdb.other.memoryMb).toBe(connectorMb);
      return [takenMb, connectorMb, threads];
    };
    expect([1, 2, 5, 7].map((destinations) => share(destinations, 30, false))).toEqual([
      [568, 482, 2],
      [284, 241, 2],
      [189, 160, 2],
      [189, 160, 2],
    ]);
    expect(share(1, 30, true)).toEqual([568, 241, 2]);
    expect(share(3, 200, true)).toEqual([568, 328, 1]);
    expect(share(3, 5000, true)).toEqual([568, 5128, 1]);
  });

  test('and large rows get the memory of one thread, and two threads if there is memory for both', () => {
    const share = (destinations: number, rowBytes: number, hasOwn: boolean) => {
      const asked = { leaves: 4, destinations, rowBytes, hasOwn };
      const { takenMb, connectorMb, threads } = deliveryShare({ memoryMb: 768, threads: 2 }, asked);
      return [takenMb, connectorMb, threads];
    };
    expect(share(2, 15_000, true)).toEqual([284, 132, 2]);
    // The table's DuckDB has the rest: until a transaction ends, it has rows in memory.
    expect(share(2, 2_000_000, true)).toEqual([568, 327, 1]);
    expect(share(1, 2_000_000, false)).toEqual([568, 482, 1]);
    const { comparing, commit } = planMemory({ memoryMb: 768, threads: 2 }, { recordBytes: 2_000_000 }).duckdb;
    expect([comparing.threads, commit.threads]).toEqual([1, 1]);
    expect(planMemory({ memoryMb: 1000, threads: 2 }, { recordBytes: 2_000_000 }).duckdb.commit.threads).toBe(2);
  });

  test('and rows are sorted by as many threads as have the memory for it', () => {
    const threads = (memoryMb: number) =>
      deliveryShare({ memoryMb, threads: 4 }, { destinations: 1, leaves: 30, hasOwn: false, sorts: true }).threads;
    expect([128, 256, 768, 1200, 2400].map(threads)).toEqual([1, 1, 1, 2, 4]);
  });

  test('and the limits grow with tables of more than 500 columns', () => {
    const limits = (widestColumns: number) =>
      Object.values(planMemory({ memoryMb: 768, threads: 3 }, { widestColumns }).duckdb).map(
        ({ memoryMb }) => memoryMb,
      );
    expect(limits(500)).toEqual([482, 319, 482, 482, 482, 256]);
    expect(limits(5000)).toEqual([2121, 1958, 2121, 2121, 2121, 1895]);
  });
});

test('a plan has one line', () => {
  const resources = { memoryMb: 768, threads: 2 };
  expect(describePlan(resources, planMemory(resources))).toBe(
    'memory plan: 768 MB in all, and up to 845 MB for moments: process 200 MB; while it reads, responses 192 MB and record caches up to 248 MB; DuckDB has what these leave, at most 482 MB with 2 threads (first commit: 256 MB with 1 thread); 2 converters, 1,928,000 keys per join',
  );
});

test.each([
  [0, undefined],
  [2 ** 64, undefined],
  [845_000_000, undefined],
  [
    536_870_912,
    'this process may use 536 MB, and a run up to 845 MB: set `resources.memory_mb` to 487, or raise its limit',
  ],
  [300_000_000, 'this process may use 300 MB, and a run up to 845 MB: raise its limit'],
])('says so if a cgroup of %i bytes has less memory than a run may take', (limitBytes, notice) => {
  expect(memoryNotice({ memoryMb: 768 }, limitBytes)).toBe(notice);
});

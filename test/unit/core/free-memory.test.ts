import { expect, it } from 'vitest';
import { freeMemory } from '../../../src/core/free-memory.js';
import { RecordHashTable } from '../../../src/record-cache/hash-table.js';

const resident = () => process.memoryUsage.rss() / 1_000_000;

it('goes back to the system, though the array is still there', async () => {
  const before = resident();
  const words = new Uint32Array(50_000_000).fill(7);
  expect(resident()).toBeGreaterThan(before + 150);
  freeMemory(words.buffer);
  expect(words).toHaveLength(0);
  // Node frees it in a later turn.
  await expect.poll(resident, { timeout: 10_000 }).toBeLessThan(before + 100);
});

it('of a hash table may be freed twice', () => {
  const table = RecordHashTable.empty(1000);
  expect(table.words.byteLength).toBe(RecordHashTable.bytesFor(1000));
  const hash = new Uint32Array([4_000_000_000, 2, 3, 4]);
  table.add(hash, 0);
  expect(table.find(hash, 0)).toBeGreaterThan(0);
  table.free();
  table.free();
  expect([table.find(hash, 0), table.count]).toEqual([-1, 0]);
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecordHashTable } from '../../../src/record-cache/hash-table.js';

/** Hashes whose first words lie close together, so that searches run into each other and around the end of the table. */
const crowded = fc.tuple(
  fc.constantFrom(0, 1, 0x7fff_ffff, 0xffff_fff0, 0xffff_ffff),
  fc.integer({ min: 1, max: 3 }),
  fc.integer({ min: 0, max: 2 }),
  fc.constant(7),
);
const steps = fc.array(fc.record({ adds: fc.boolean(), hash: crowded }), { maxLength: 200 });

describe('a hash table', () => {
  it('has all added hashes that were not removed', () => {
    fc.assert(
      fc.property(steps, (actions) => {
        const set = RecordHashTable.empty(45);
        const model = new Set<string>();
        for (const { adds, hash } of actions) {
          const words = Uint32Array.from(hash);
          const name = hash.join();
          if (adds) {
            expect(set.add(words, 0)).toBe(!model.has(name));
            model.add(name);
          } else {
            expect(set.remove(words, 0)).toBe(model.delete(name));
          }
          expect(set.count).toBe(model.size);
        }
        let found = 0;
        for (let slot = 0; slot < set.slots; slot += 1) {
          if (!set.has(slot)) continue;
          const words = set.words.slice(slot * 4, slot * 4 + 4);
          expect(model.has(words.join())).toBe(true);
          expect(set.find(words, 0)).toBe(slot);
          found += 1;
        }
        expect(found).toBe(model.size);
      }),
    );
  });

  it('takes a tenth more hashes than its capacity, and reports before whether more fit', () => {
    const set = RecordHashTable.empty(1000);
    const word = (index: number) => Uint32Array.of(index * 4_000_000, 1, 0, 0);
    for (let index = 0; index < 1000; index += 1) set.add(word(index), 0);
    expect(set.hasCapacity(100)).toBe(true);
    for (let index = 1000; index < 1100; index += 1) set.add(Uint32Array.of(index * 3_900_001, 2, 0, 0), 0);
    expect(set.hasCapacity(100)).toBe(false);
    expect(() => {
      for (let index = 1100; index < 1200; index += 1) set.add(Uint32Array.of(index, 3, 0, 0), 0);
    }).toThrow(RangeError);
    expect(set.find(word(999), 0)).toBeGreaterThanOrEqual(0);
  });
});

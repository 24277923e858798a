import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BodyBuilder, BufferPool } from '../../../src/api/response-body.js';

const kilobytes = 1024;

/** A body that arrives in chunks of at most 16 KB. */
function bodyOf(bytes: Buffer, pool: BufferPool, stated = bytes.length): Buffer {
  const body = new BodyBuilder(stated, pool);
  for (let from = 0; from < bytes.length; from += 16 * kilobytes) body.add(bytes.subarray(from, from + 16 * kilobytes));
  return body.whole();
}

describe('the memory of bodies', () => {
  test('is used again only after it was given back, and by one body', () => {
    const pool = new BufferPool();
    const [a, b] = [Buffer.alloc(100 * kilobytes, 'a'), Buffer.alloc(90 * kilobytes, 'b')];
    const first = bodyOf(a, pool);
    const second = bodyOf(b, pool);
    expect(second.buffer).not.toBe(first.buffer);
    pool.giveBack(first);
    pool.giveBack(first);
    const third = bodyOf(b, pool);
    expect(third.buffer).toBe(first.buffer);
    expect(bodyOf(b, pool).buffer).not.toBe(third.buffer);
    expect([second.equals(b), third.equals(b)]).toEqual([true, true]);
  });

  test('holds the bytes that arrived, whatever it held before', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            kilobytes: fc.integer({ min: 1, max: 300 }),
            letter: fc.constantFrom('x', 'y', 'z'),
            isStated: fc.boolean(),
            isKept: fc.boolean(),
          }),
          { maxLength: 8 },
        ),
        (bodies) => {
          const pool = new BufferPool();
          const kept: [Buffer, Buffer][] = [];
          for (const { kilobytes: size, letter, isStated, isKept } of bodies) {
            const bytes = Buffer.alloc(size * kilobytes + size, letter);
            const body = bodyOf(bytes, pool, isStated ? bytes.length : 0);
            expect(body.equals(bytes)).toBe(true);
            if (isKept) kept.push([body, bytes]);
            else pool.giveBack(body);
            for (const [held, expected] of kept) expect(held.equals(expected)).toBe(true);
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  test('is not kept without bound', () => {
    const pool = new BufferPool();
    const large = Buffer.alloc(9 * 1024 * kilobytes);
    const [first, second] = [bodyOf(large, pool), bodyOf(large, pool)];
    pool.giveBack(first);
    pool.giveBack(second);
    expect(bodyOf(large, pool).buffer).toBe(first.buffer);
    expect(bodyOf(large, pool).buffer).not.toBe(second.buffer);
  });
});

import { expect, test } from 'vitest';
import { MemoryShares } from '../../../src/storage/memory-shares.js';

test('works take turns where their shares do not suffice, and the memory is never exceeded', async () => {
  const shares = new MemoryShares(100);
  const order: string[] = [];
  let taken = 0;
  const work = (name: string, mb: number) =>
    shares.within(mb, async () => {
      taken += mb;
      order.push(`${name} ${taken}`);
      await new Promise((resolve) => setImmediate(resolve));
      taken -= mb;
      if (name === 'b') throw new Error('failed');
    });
  const ended = await Promise.allSettled([work('a', 60), work('b', 60), work('c', 40), work('d', 100), work('e', 1)]);
  expect(order).toEqual(['a 60', 'b 60', 'c 100', 'd 100', 'e 1']);
  expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled']);
});

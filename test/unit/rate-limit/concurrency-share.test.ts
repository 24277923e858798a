import pLimit from 'p-limit';
import { expect, it } from 'vitest';
import { AdaptiveLimit } from '../../../src/rate-limit/adaptive-limit.js';
import { ConcurrencyController } from '../../../src/rate-limit/concurrency.js';
import { SlidingWindowLimiter } from '../../../src/rate-limit/limiter.js';
import { ManualClock } from '../api/clocks.js';

const never = new AbortController().signal;

/** The share of a limit that 200 chains of pages use in the third and fourth second, at a latency. */
async function share(limit: number, latencyMs: number, concurrency?: number): Promise<number> {
  const clock = new ManualClock();
  const limiter = new SlidingWindowLimiter(new AdaptiveLimit(limit), clock);
  const atOnce = new ConcurrencyController({
    limit: () => limiter.effectiveLimit,
    concurrency,
    bodyBytes: 192_000_000,
  });
  let answers = 0;
  let isOver = false;
  const chains = pLimit(concurrency ?? atOnce.count);
  if (concurrency === undefined) atOnce.govern(chains);
  const chain = async () => {
    while (!isOver) {
      const permit = await limiter.acquire(never);
      const sentAt = clock.monotonic();
      await clock.sleep(latencyMs);
      permit.answered();
      atOnce.answered(clock.monotonic() - sentAt, 85_000);
      answers += 1;
    }
  };
  const all = Promise.all(Array.from({ length: 200 }, () => chains(chain)));
  await clock.advance(2_000);
  const before = answers;
  await clock.advance(2_000);
  const used = (answers - before) / 2 / limit;
  isOver = true;
  await clock.finish();
  await all;
  return used;
}

it.each([2, 20, 50])(
  'a service that is %i ms away gets nearly all requests that the limit allows',
  async (latencyMs) => {
    expect(await share(500, latencyMs)).toBeGreaterThan((0.97 * 1_000) / (1_001 + latencyMs));
  },
);

it('a constant number of requests at once would leave much of the limit unused', async () => {
  expect(await share(500, 50, 16)).toBeLessThan(0.65);
});

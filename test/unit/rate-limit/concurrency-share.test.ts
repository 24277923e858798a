import { expect, it } from 'vitest';
import { AdaptiveLimit } from '../../../src/rate-limit/adaptive-limit.js';
import { ConcurrencyController } from '../../../src/rate-limit/concurrency.js';
import { permitWindowMs, SlidingWindowLimiter } from '../../../src/rate-limit/limiter.js';
import { ManualClock } from '../api/clocks.js';

const never = new AbortController().signal;

interface Reading {
  readonly limit: number;
  readonly chains: number;
  readonly requests: number;
  readonly latencyMs: number;
  readonly concurrency?: number;
}

interface Seen {
  /** When each request was sent, and by which chain. */
  readonly sent: readonly { readonly at: number; readonly chain: number }[];
  /** When the last response had come. */
  readonly end: number;
}

/** Reads chains of pages as the client does: each asks for its next page once it has the one before. */
async function read({ limit, chains, requests, latencyMs, concurrency }: Reading): Promise<Seen> {
  const clock = new ManualClock();
  const limiter = new SlidingWindowLimiter(new AdaptiveLimit(limit), clock);
  const atOnce = new ConcurrencyController({
    limit: () => limiter.effectiveLimit,
    concurrency,
    bodyBytes: 192_000_000,
    now: () => clock.monotonic(),
  });
  const sent: { at: number; chain: number }[] = [];
  let left = requests;
  const chain = async (number: number) => {
    while (left > 0) {
      left -= 1;
      await atOnce.acquire(never);
      const permit = await limiter.acquire(never);
      const at = clock.monotonic();
      sent.push({ at, chain: number });
      await clock.sleep(latencyMs);
      permit.answered();
      atOnce.answered(clock.monotonic() - at, 85_000);
      atOnce.release();
    }
  };
  atOnce.expect(chains);
  const all = Promise.all(Array.from({ length: chains }, (_, number) => chain(number)));
  await clock.finish();
  await all;
  return { sent, end: clock.monotonic() };
}

it.each([
  { latencyMs: 1, chains: 64 },
  { latencyMs: 15, chains: 64 },
  { latencyMs: 50, chains: 64 },
])('$chains chains of a service that is $latencyMs ms away use the whole limit', async ({ latencyMs, chains }) => {
  const limit = 500;
  const { sent, end } = await read({ limit, chains, requests: 10 * limit, latencyMs });
  // A permit is in use for the round trip and the second after it: no more is possible.
  const best = 1_000 / (permitWindowMs + latencyMs);
  const first = sent[limit]?.at ?? Number.NaN;
  const last = sent.at(-1)?.at ?? Number.NaN;
  expect(((sent.length - 1 - limit) / (last - first)) * 1_000).toBeGreaterThan(0.98 * best * limit);
  // Of the whole reading, with its first second and its last.
  expect((sent.length / end) * 1_000).toBeGreaterThan(0.97 * limit);
});

it('the first second already uses the limit', async () => {
  const { sent } = await read({ limit: 500, chains: 64, requests: 1_000, latencyMs: 50 });
  expect(sent.filter(({ at }) => at < 1_000)).toHaveLength(500);
});

it('chains advance together, however many more there are than requests under way', async () => {
  const chains = 200;
  const { sent } = await read({ limit: 500, chains, requests: 3_000, latencyMs: 20 });
  const pages = Array.from({ length: chains }, () => 0);
  let widest = 0;
  for (const { chain } of sent) {
    pages[chain] = (pages[chain] ?? 0) + 1;
    widest = Math.max(widest, Math.max(...pages) - Math.min(...pages));
  }
  expect(widest).toBe(1);
});

it('a constant number of requests at once would leave much of the limit unused', async () => {
  const { sent, end } = await read({ limit: 500, chains: 64, requests: 2_000, latencyMs: 50, concurrency: 16 });
  expect((sent.length / end) * 1_000).toBeLessThan(0.65 * 500);
});

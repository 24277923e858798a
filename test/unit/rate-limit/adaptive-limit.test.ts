import { describe, expect, it } from 'vitest';
import { SlidingWindow } from '../../../src/local-service/limits/family-limits.js';
import { AdaptiveLimit } from '../../../src/rate-limit/adaptive-limit.js';
import { SlidingWindowLimiter } from '../../../src/rate-limit/limiter.js';
import { seed } from '../../fixtures/seed.js';
import { ManualClock } from '../api/clocks.js';

const never = new AbortController().signal;

/** Numbers from 0 to 1, the same for the same seed. */
function randoms(from: number): () => number {
  let state = from >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Second {
  readonly accepted: number;
  readonly refused: number;
}

/**
 * Chains that ask again as soon as they have their response, a little later after a 429, as the client does; counted second by
 * second.
 */
async function simulate(
  limit: number,
  seconds: number,
  accepts: (now: number) => boolean,
  chains = 40,
): Promise<{ readonly seconds: Second[]; readonly limiter: SlidingWindowLimiter }> {
  const clock = new ManualClock();
  const limiter = new SlidingWindowLimiter(new AdaptiveLimit(limit), clock);
  const end = seconds * 1000;
  const counted = Array.from({ length: seconds }, () => ({ accepted: 0, refused: 0 }));
  const chain = async () => {
    while (clock.monotonic() < end) {
      const permit = await limiter.acquire(never);
      const now = clock.monotonic();
      const second = counted[Math.floor(now / 1000)];
      await clock.sleep(10);
      permit.answered();
      if (accepts(now)) {
        if (second !== undefined) second.accepted += 1;
        continue;
      }
      if (second !== undefined) second.refused += 1;
      limiter.throttled(0);
      await clock.sleep(100);
    }
  };
  const work = Promise.all(Array.from({ length: chains }, chain));
  await clock.advance(end + 60_000);
  await work;
  return { seconds: counted, limiter };
}

function sum(seconds: readonly Second[], key: keyof Second): number {
  return seconds.reduce((total, second) => total + second[key], 0);
}

const shareRefused = (seconds: readonly Second[]) =>
  sum(seconds, 'refused') / (sum(seconds, 'refused') + sum(seconds, 'accepted'));

describe('AdaptiveLimit', () => {
  it.each([0.015, 0.05])('loses little when a share of %d of all requests is refused by chance', async (share) => {
    const random = randoms(seed);
    const { seconds } = await simulate(500, 60, () => random() >= share);
    const calm = await simulate(500, 60, () => true);
    const kept = sum(seconds, 'accepted') / sum(calm.seconds, 'accepted');
    // The refused requests themselves are lost whatever the client does.
    expect(kept).toBeGreaterThan(1 - share - 0.04);
  });

  it('finds a true limit of half within a few seconds; then fewer than 1 % are refused and most of it is used', async () => {
    const window = new SlidingWindow(250);
    const { seconds } = await simulate(500, 60, (now) => window.pass(now));
    const later = seconds.slice(5);
    expect(shareRefused(later)).toBeLessThan(0.01);
    expect(sum(later, 'accepted') / later.length).toBeGreaterThan(250 * 0.93);
  });

  it('falls to a trickle when everything is refused, and is back within 15 seconds', async () => {
    const { seconds } = await simulate(500, 60, (now) => now < 10_000 || now >= 30_000);
    const trickle = seconds.slice(15, 30);
    expect(sum(trickle, 'refused') / trickle.length).toBeLessThan(5);
    expect(sum(trickle, 'refused')).toBeGreaterThan(0);
    expect(seconds[45]?.accepted).toBeGreaterThan(480);
  });

  it('takes a single 429 for chance', async () => {
    let asked = 0;
    const { seconds } = await simulate(500, 5, () => {
      asked += 1;
      return asked !== 700;
    });
    expect(sum(seconds, 'refused')).toBe(1);
    expect(seconds.slice(1).every(({ accepted }) => accepted > 470)).toBe(true);
  });

  it('becomes smaller in proportion when a small limit is missed, and never smaller than one', () => {
    const learned = new AdaptiveLimit(10);
    learned.answered(0, 10);
    learned.refused(1);
    expect(learned.at(999)).toBe(10);
    expect(learned.at(1_000)).toBe(9);
    for (let now = 2_000; now < 9_000; now += 1_000) {
      learned.answered(now, 5);
      learned.refused(5);
    }
    expect(learned.at(9_000)).toBe(1);
  });

  it('does not stop everything because the only request of a second was refused', () => {
    const learned = new AdaptiveLimit(2_000);
    learned.answered(0, 1);
    learned.refused(1);
    expect(learned.at(1_000)).toBe(1_000);
  });

  it('forgets the learned limit after a time without requests', () => {
    const learned = new AdaptiveLimit(2_000);
    learned.answered(0, 100);
    learned.refused(50);
    expect(learned.at(1_000)).toBe(50);
    expect(learned.at(3_000)).toBe(50);
    expect(learned.at(60_000)).toBe(2_000);
  });
});

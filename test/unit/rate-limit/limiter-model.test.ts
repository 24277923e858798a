import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AdaptiveLimit } from '../../../src/rate-limit/adaptive-limit.js';
import { permitWindowMs, SlidingWindowLimiter } from '../../../src/rate-limit/limiter.js';
import { ManualClock } from '../api/clocks.js';

interface Ask {
  /** When it asks, counted from the ask before. */
  readonly after: number;
  /** From the grant to the response. */
  readonly latency: number;
  readonly end: 'answered' | 'failed' | 'cancelled';
  /** How long it waits for its permit before it gives up; undefined if it never does. */
  readonly patience: number | undefined;
}

interface Served {
  readonly index: number;
  readonly granted: number;
  readonly ended: number;
  readonly end: Ask['end'];
}

const ask: fc.Arbitrary<Ask> = fc.record({
  after: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 700 })),
  latency: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 3_000 })),
  end: fc.oneof(
    { weight: 6, arbitrary: fc.constant<Ask['end']>('answered') },
    { weight: 1, arbitrary: fc.constant<Ask['end']>('failed') },
    { weight: 1, arbitrary: fc.constant<Ask['end']>('cancelled') },
  ),
  // Halves, so that no request gives up at the moment of a grant: the order of the two would be chance.
  patience: fc.option(
    fc.integer({ min: 0, max: 2_000 }).map((ms) => ms + 0.5),
    { nil: undefined, freq: 4 },
  ),
});
const asks = fc.array(ask, { minLength: 1, maxLength: 60 });
const limits = fc.integer({ min: 1, max: 7 });

/** Runs the real limiter on a schedule. */
async function serve(limiter: SlidingWindowLimiter, clock: ManualClock, schedule: readonly Ask[]): Promise<Served[]> {
  const served: Served[] = [];
  let start = 0;
  const work = schedule.map(async ({ after, latency, end, patience }, index) => {
    start += after;
    const abort = new AbortController();
    await clock.sleep(start);
    const permit = limiter.acquire(abort.signal);
    if (patience !== undefined) clock.sleep(patience).then(() => abort.abort());
    const held = await permit.catch(() => undefined);
    if (held === undefined) return;
    const granted = clock.monotonic();
    await clock.sleep(latency);
    served.push({ index, granted, ended: clock.monotonic(), end });
    held[end]();
  });
  await clock.finish();
  await Promise.all(work);
  return served.sort((a, b) => a.granted - b.granted || a.index - b.index);
}

/** The simplest limiter: it searches all requests for the first moment with a free permit. */
function reference(limit: number, schedule: readonly Ask[]): Served[] {
  const served: Served[] = [];
  const release = ({ ended, end }: Served) => (end === 'cancelled' ? ended : ended + permitWindowMs);
  let start = 0;
  let last = 0;
  for (const [index, { after, latency, end, patience }] of schedule.entries()) {
    start += after;
    const earliest = Math.max(start, last);
    const held = (time: number) => served.filter((other) => release(other) > time).length;
    const moments = [earliest, ...served.map(release).filter((time) => time > earliest)].sort((a, b) => a - b);
    const granted = moments.find((time) => held(time) < limit) as number;
    if (patience !== undefined && granted > start + patience) continue;
    last = granted;
    served.push({ index, granted, ended: granted + latency, end });
  }
  return served;
}

/** The most requests that a service can count within one second, wherever it counts each between sending and response. */
function worstSecond(served: readonly Served[]): number {
  const sent = served.filter(({ end }) => end !== 'cancelled');
  const inWindow = (from: number) =>
    sent.filter(({ granted, ended }) => granted < from + 1_000 && ended >= from).length;
  // The count only grows as the window moves, until it leaves the end of a request behind.
  return Math.max(0, ...sent.map(({ ended }) => inWindow(ended)));
}

describe('SlidingWindowLimiter against a reference', () => {
  it('hands out every permit at the same time and in the same order as the simplest limiter', async () => {
    await fc.assert(
      fc.asyncProperty(limits, asks, async (limit, schedule) => {
        const clock = new ManualClock();
        const served = await serve(new SlidingWindowLimiter(new AdaptiveLimit(limit), clock), clock, schedule);
        expect(served).toEqual(reference(limit, schedule));
      }),
      { numRuns: 300 },
    );
  });

  it('never lets the service count more than the limit in any second, wherever it counts', async () => {
    await fc.assert(
      fc.asyncProperty(limits, asks, async (limit, schedule) => {
        const clock = new ManualClock();
        const served = await serve(new SlidingWindowLimiter(new AdaptiveLimit(limit), clock), clock, schedule);
        expect(worstSecond(served)).toBeLessThanOrEqual(limit);
      }),
      { numRuns: 300 },
    );
  });

  it('has all its permits again once all requests have ended or given up', async () => {
    await fc.assert(
      fc.asyncProperty(limits, asks, async (limit, schedule) => {
        const clock = new ManualClock();
        const limiter = new SlidingWindowLimiter(new AdaptiveLimit(limit), clock);
        await serve(limiter, clock, schedule);
        await clock.advance(permitWindowMs);
        let granted = 0;
        const abort = new AbortController();
        for (let n = 0; n < limit + 2; n += 1) {
          limiter.acquire(abort.signal).then(
            () => {
              granted += 1;
            },
            () => undefined,
          );
        }
        await clock.finish();
        expect(granted).toBe(limit);
        abort.abort();
      }),
      { numRuns: 100 },
    );
  });

  it('keeps to the limit and to every wait while it is throttled at random, and serves everybody in the end', async () => {
    const throttles = fc.array(
      fc.record({ at: fc.integer({ min: 0, max: 20_000 }), wait: fc.integer({ min: 0, max: 3_000 }) }),
      { maxLength: 10 },
    );
    await fc.assert(
      fc.asyncProperty(limits, asks, throttles, async (limit, schedule, waits) => {
        const clock = new ManualClock();
        const limiter = new SlidingWindowLimiter(new AdaptiveLimit(limit), clock);
        const throttling = waits.map(async ({ at, wait }) => {
          await clock.sleep(at);
          limiter.throttled(wait);
        });
        const patient = schedule.map((one) => ({ ...one, patience: undefined }));
        const served = await serve(limiter, clock, patient);
        await Promise.all(throttling);
        expect(served.map(({ index }) => index)).toEqual(schedule.map((_, index) => index));
        expect(worstSecond(served)).toBeLessThanOrEqual(limit);
        for (const { at, wait } of waits) {
          expect(served.filter(({ granted }) => granted > at && granted < at + wait)).toEqual([]);
        }
      }),
      { numRuns: 200 },
    );
  });
});

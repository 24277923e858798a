import { describe, expect, it } from 'vitest';
import { AdaptiveLimit } from '../../../src/rate-limit/adaptive-limit.js';
import type { Permit } from '../../../src/rate-limit/budget.js';
import { permitWindowMs, SlidingWindowLimiter } from '../../../src/rate-limit/limiter.js';
import { ManualClock, turn } from '../api/clocks.js';

const never = new AbortController().signal;

/** Asks for permits and keeps those that were granted, in order. */
function collect(limiter: SlidingWindowLimiter, count: number, signal = never): Permit[] {
  const permits: Permit[] = [];
  for (let n = 0; n < count; n += 1) {
    limiter.acquire(signal).then(
      (permit) => permits.push(permit),
      () => undefined,
    );
  }
  return permits;
}

function opened(limit: number) {
  const clock = new ManualClock();
  return { clock, limiter: new SlidingWindowLimiter(new AdaptiveLimit(limit), clock) };
}

describe('SlidingWindowLimiter', () => {
  it('hands out the whole budget at once and not one permit more', async () => {
    const { limiter } = opened(5);
    const permits = collect(limiter, 8);
    await turn();
    expect(permits).toHaveLength(5);
  });

  it('gives a permit back a second after its response began, not after its request', async () => {
    const { clock, limiter } = opened(1);
    const permits = collect(limiter, 2);
    await clock.advance(5_000);
    expect(permits).toHaveLength(1);
    permits[0]?.answered();
    await clock.advance(permitWindowMs - 0.01);
    expect(permits).toHaveLength(1);
    await clock.advance(0.01);
    expect(permits).toHaveLength(2);
  });

  it('gives the permit of a failed request back a second after the failure', async () => {
    const { clock, limiter } = opened(1);
    const permits = collect(limiter, 2);
    await turn();
    permits[0]?.failed();
    await clock.advance(1_000);
    expect(permits).toHaveLength(1);
    await clock.advance(1);
    expect(permits).toHaveLength(2);
  });

  it('passes the permit of a request that was never sent to the next waiter at once', async () => {
    const { limiter } = opened(1);
    const permits = collect(limiter, 2);
    await turn();
    permits[0]?.cancelled();
    await turn();
    expect(permits).toHaveLength(2);
  });

  it('counts a permit once, however often it is given back', async () => {
    const { clock, limiter } = opened(2);
    const permits = collect(limiter, 2);
    await turn();
    permits[0]?.answered();
    permits[0]?.failed();
    permits[0]?.cancelled();
    const later = collect(limiter, 2);
    await clock.advance(10_000);
    expect(later).toHaveLength(1);
  });

  it('keeps the order even if a permit has come back and the timer is late', async () => {
    const { clock, limiter } = opened(1);
    (await limiter.acquire(never)).answered();
    const order: string[] = [];
    const ask = (name: string) => limiter.acquire(never).then((permit) => order.push(name) && permit.cancelled());
    const first = ask('first');
    await turn();
    clock.oversleep(2 * permitWindowMs);
    await Promise.all([ask('second'), first]);
    expect(order).toEqual(['first', 'second']);
  });

  it('needs no timer if only a response can free a permit', async () => {
    const { clock, limiter } = opened(1);
    collect(limiter, 2);
    await turn();
    expect(clock.sleeping).toBe(0);
  });

  it('needs one timer for any number of waiting requests', async () => {
    const { clock, limiter } = opened(10);
    const permits = collect(limiter, 500);
    await turn();
    for (const permit of permits.slice()) permit.answered();
    await turn();
    expect(clock.sleeping).toBe(1);
  });

  it('stops its timer when no one waits any more', async () => {
    const { clock, limiter } = opened(2);
    const [first, second] = [await limiter.acquire(never), await limiter.acquire(never)];
    first.answered();
    const permits = collect(limiter, 1);
    await turn();
    expect(clock.sleeping).toBe(1);
    second.cancelled();
    await turn();
    expect([permits.length, clock.sleeping]).toEqual([1, 0]);
  });

  it('refuses a waiting request as soon as it is aborted, and stops its timer', async () => {
    const { clock, limiter } = opened(1);
    const [permit] = [await limiter.acquire(never)];
    permit.answered();
    const abort = new AbortController();
    const waiting = limiter.acquire(abort.signal);
    await turn();
    expect(clock.sleeping).toBe(1);
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'interrupted', kind: 'interrupted' });
    expect(clock.sleeping).toBe(0);
  });

  it('refuses an aborted request even if a permit is free', async () => {
    const { limiter } = opened(1);
    await expect(limiter.acquire(AbortSignal.abort())).rejects.toMatchObject({ code: 'interrupted' });
    expect(collect(limiter, 1)).toEqual([]);
    await turn();
  });

  it('lets no one through while the service asks to wait, and everybody after', async () => {
    const { clock, limiter } = opened(10);
    limiter.pause(30_000);
    const permits = collect(limiter, 3);
    await clock.advance(10_000);
    limiter.pause(1_000);
    await clock.advance(19_999);
    expect(permits).toHaveLength(0);
    await clock.advance(1);
    expect(permits).toHaveLength(3);
  });

  it('waits out the longer of two waits', async () => {
    const { clock, limiter } = opened(10);
    limiter.throttled(2_000);
    const permits = collect(limiter, 1);
    limiter.throttled(5_000);
    await clock.advance(4_999);
    expect(permits).toHaveLength(0);
    await clock.advance(1);
    expect(permits).toHaveLength(1);
  });

  it('hands out more at once once its capacity is larger', async () => {
    const clock = new ManualClock();
    let capacity = 2;
    const notices = { at: () => capacity, risesAt: Number.POSITIVE_INFINITY, answered: () => {}, refused: () => {} };
    const limiter = new SlidingWindowLimiter(notices, clock);
    const permits = collect(limiter, 9);
    await turn();
    expect(permits).toHaveLength(2);
    capacity = 5;
    limiter.wake();
    await turn();
    expect([permits.length, limiter.waiting, limiter.used]).toEqual([5, 4, 5]);
  });

  it('waits for as many permits as are too many when its capacity has become smaller', async () => {
    const clock = new ManualClock();
    let capacity = 3;
    const notices = { at: () => capacity, risesAt: Number.POSITIVE_INFINITY, answered: () => {}, refused: () => {} };
    const limiter = new SlidingWindowLimiter(notices, clock);
    const first = collect(limiter, 3);
    await turn();
    for (const permit of first) {
      permit.answered();
      await clock.advance(100);
    }
    capacity = 1;
    const next = collect(limiter, 1);
    // The last of the three responses arrived 200 ms after the first.
    await clock.advance(permitWindowMs - 300 + 199);
    expect(next).toHaveLength(0);
    await clock.advance(1);
    expect(next).toHaveLength(1);
  });

  it('refuses a limit below one', () => {
    expect(() => new AdaptiveLimit(0.5)).toThrow(RangeError);
    expect(() => new AdaptiveLimit(Number.NaN)).toThrow(RangeError);
  });
});

it('keeps every release when the ring of them grows after it has wrapped', async () => {
  const { clock, limiter } = opened(100);
  const first = collect(limiter, 40);
  await turn();
  for (const permit of first) permit.answered();
  await clock.advance(permitWindowMs);
  expect(limiter.used).toBe(0);
  // The ring has 64 places, and begins at the 41st: 24 releases up to its end, then 40 from its start, then it must grow.
  const permits = collect(limiter, 100);
  await turn();
  for (const permit of permits.slice(0, 24)) permit.answered();
  await clock.advance(500);
  for (const permit of permits.slice(24)) permit.answered();
  const next = collect(limiter, 100);
  await clock.advance(permitWindowMs - 500 - 0.01);
  expect(next).toHaveLength(0);
  await clock.advance(0.01);
  expect(next).toHaveLength(24);
  await clock.advance(500);
  expect(next).toHaveLength(100);
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PeakMeter, SlidingWindow } from '../../../src/local-service/limits/family-limits.js';

const steps = fc.array(fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 1200 })), { maxLength: 300 });

function times(gaps: readonly number[]): number[] {
  let at = 0;
  return gaps.map((gap) => {
    at += gap;
    return at;
  });
}

describe('the sliding window', () => {
  it('lets a request pass exactly when fewer than the limit passed in the second before it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), steps, (limit, gaps) => {
        const window = new SlidingWindow(limit);
        const passed: number[] = [];
        for (const now of times(gaps)) {
          const free = passed.filter((at) => now - at < 1000).length < limit;
          expect(window.pass(now)).toBe(free);
          if (free) passed.push(now);
        }
      }),
    );
  });

  it('gives the wait until the next request may pass, to the millisecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), steps, (limit, gaps) => {
        const window = new SlidingWindow(limit);
        let end = 0;
        for (const now of times(gaps)) {
          window.pass(now);
          end = now;
        }
        const wait = window.wait(end);
        if (wait > 0) expect(window.pass(end + wait - 1)).toBe(false);
        expect(window.pass(end + wait)).toBe(true);
      }),
    );
  });
});

it('the peak is the most requests in any half-open second, also for more than the meter holds at first', () => {
  fc.assert(
    fc.property(steps, (gaps) => {
      const meter = new PeakMeter();
      const all = times(gaps);
      for (const now of all) meter.add(now);
      const peak = Math.max(0, ...all.map((from) => all.filter((at) => at >= from && at - from < 1000).length));
      expect(meter.peak).toBe(peak);
    }),
  );
  const many = new PeakMeter();
  for (let count = 0; count < 20_000; count += 1) many.add(count / 100);
  expect(many.peak).toBe(20_000);
  many.add(1199.995);
  expect(many.peak).toBe(20_000);
});

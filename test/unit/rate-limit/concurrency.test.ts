import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ConcurrencyController,
  type ConcurrencyOptions,
  requiredConcurrency,
} from '../../../src/rate-limit/concurrency.js';

function atOnce(options: Partial<ConcurrencyOptions> = {}): ConcurrencyController {
  return new ConcurrencyController({ limit: () => 2_000, concurrency: undefined, bodyBytes: 192_000_000, ...options });
}

/** Many responses that take this long. */
function responses(each: ConcurrencyController, ms: number, bytes = 85_000): number {
  for (let response = 0; response < 1_024; response += 1) each.answered(ms, bytes);
  return each.count;
}

describe('requests at once', () => {
  it('are few before the latency is known, and for a service that is near', () => {
    expect(atOnce().count).toBe(8);
    expect(responses(atOnce(), 2)).toBe(8);
  });

  it('begin with the number that all readings could use, up to a tenth of the limit', () => {
    const each = atOnce();
    each.expect(1);
    expect(each.count).toBe(8);
    each.expect(63);
    expect(each.count).toBe(64);
    each.expect(64);
    expect(each.count).toBe(128);
    each.expect(1_000);
    expect(each.count).toBe(200);
    const few = atOnce({ concurrency: 32 });
    few.expect(64);
    expect(few.count).toBe(32);
  });

  it('double with each round of responses until the latency is known', () => {
    const each = atOnce();
    each.expect(64);
    const counts = [64, 128, 256].map((round) => {
      for (let response = 0; response < round; response += 1) each.answered(200, 85_000);
      return each.count;
    });
    expect(counts).toEqual([128, 256, Math.ceil(requiredConcurrency(2_000, 200) * 1.25)]);
    each.expect(512);
    expect(each.count).toBe(counts[2]);
  });

  it('use the whole limit of a service that is far, and not many more', () => {
    for (const ms of [20, 50, 200]) {
      const count = responses(atOnce(), ms);
      expect(count).toBeGreaterThanOrEqual(requiredConcurrency(2_000, ms));
      expect(count).toBeLessThanOrEqual(requiredConcurrency(2_000, ms) * 1.3);
    }
  });

  it('follow the part of the limit that the budget leaves', () => {
    let limit = 2_000;
    const each = atOnce({ limit: () => limit });
    const all = responses(each, 50);
    limit = 500;
    expect(responses(each, 50)).toBeLessThanOrEqual(all / 3);
  });

  it('are no more than the memory for bodies holds, never more than `concurrency`, and 512 in any case', () => {
    expect(responses(atOnce({ bodyBytes: 20_000_000 }), 200, 1_000_000)).toBe(10);
    expect(responses(atOnce({ concurrency: 32 }), 200)).toBe(32);
    expect(responses(atOnce({ concurrency: 1 }), 200)).toBe(1);
    expect(responses(atOnce(), 10_000)).toBe(512);
  });

  it('do not chase responses that become slow because there are many of them', () => {
    const each = atOnce();
    const before = responses(each, 20);
    // As slow as in a service that serves only 500 requests a second, however many come.
    for (let round = 0; round < 20; round += 1) responses(each, Math.max(20, (each.count / 500) * 1_000));
    expect(each.count).toBeLessThanOrEqual(before * 3);
  });

  it('do not take pages for slow because single records are quick', () => {
    const each = atOnce();
    responses(each, 5, 800);
    expect(responses(each, 50)).toBeGreaterThanOrEqual(requiredConcurrency(2_000, 50));
  });

  it('keep the `concurrency` of each caller up to date until the caller ends that', () => {
    const each = atOnce();
    const [one, other] = [{ concurrency: 0 }, { concurrency: 0 }];
    each.govern(one);
    const end = each.govern(other);
    expect([one.concurrency, other.concurrency]).toEqual([8, 8]);
    end();
    const count = responses(each, 50);
    expect([one.concurrency, other.concurrency]).toEqual([count, 8]);
  });

  it('stay within their bounds, whatever the responses are', () => {
    const response = fc.tuple(fc.double({ min: 0, max: 1e6, noNaN: true }), fc.nat({ max: 1e9 }));
    fc.assert(
      fc.property(
        fc.array(response, { maxLength: 200 }),
        fc.option(fc.integer({ min: 1, max: 1024 })),
        (all, input) => {
          const each = atOnce({ concurrency: input ?? undefined });
          for (const [ms, bytes] of all) each.answered(ms, bytes);
          expect(Number.isInteger(each.count)).toBe(true);
          expect(each.count).toBeGreaterThanOrEqual(1);
          expect(each.count).toBeLessThanOrEqual(input ?? 512);
        },
      ),
    );
  });
});

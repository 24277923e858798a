import { describe, expect, it } from 'vitest';
import { budgets, reach } from '../../../src/engine/plan/plan-time.js';
import { shareLines } from '../../../src/output/progress-lines.js';

describe('reach', () => {
  it('says what share of the limit a number of requests at once can use, and which number uses it all', () => {
    const far = reach(2_000, { atOnce: 64, roundTripMs: 50 });
    expect(far.share).toBeCloseTo(0.64);
    expect(far.best_share).toBeCloseTo(0.952, 3);
    expect(far.needed_at_once).toBe(96);
    expect(reach(2_000, { atOnce: 96, roundTripMs: 50 }).share).toBeCloseTo(0.952, 3);
  });

  it('finds 64 requests at once enough for a service that is near', () => {
    const near = reach(2_000, { atOnce: 64, roundTripMs: 2 });
    expect(near.share).toBeGreaterThan(0.99);
    expect(near.needed_at_once).toBe(4);
  });
});

it('a group is planned with the chains of its largest stream, as far as the concurrency allows', () => {
  const chains = Array.from({ length: 100 }, () => 50);
  const load = { group: 'profile', requests: 5_000, chains, roundTripMs: 100 } as const;
  const limits = { profile: 2_000, management: 10, realtime: 200 };
  const [budget] = budgets([load], { limits, concurrency: 64 });
  expect(budget).toMatchObject({ limit: 2_000, requests: 5_000, seconds: 2.5, reach: { at_once: 64 } });
  expect(budget?.reach.share).toBeCloseTo(0.32);
});

it('progress says how the budget is shared, and nothing while this process has all of it', () => {
  expect(shareLines({ part: 1, otherProcesses: 0 })).toEqual([]);
  expect(shareLines({ part: 0.5, otherProcesses: 1 })).toEqual([
    'share of the budget: 50 %, shared with 1 other process',
  ]);
  expect(shareLines({ part: 0.25, otherProcesses: 3 })).toEqual([
    'share of the budget: 25 %, shared with 3 other processes',
  ]);
  expect(shareLines({ part: 0.4, otherProcesses: 0 })).toEqual([
    'share of the budget: 40 %, because the service answered 429',
  ]);
});

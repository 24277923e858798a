import { describe, expect, it } from 'vitest';
import type { JobReport, StreamReport } from '../../../src/core/run-report.js';
import { pastPace } from '../../../src/engine/plan/past-pace.js';
import { readingTime } from '../../../src/engine/plan/plan-time.js';

type Night = Partial<Pick<StreamReport, 'requests' | 'seconds' | 'status' | 'partitions'>> & { resumed?: boolean };

/** Reports of made-up nights, newest first: 200 requests in 10 s, unless a night says otherwise. */
function history(...nights: readonly Night[]): Pick<JobReport, 'resumed' | 'streams'>[] {
  return nights.map(({ resumed = false, ...night }) => {
    const stream = { name: 'members', status: 'ok', requests: 200, seconds: 10, partitions: null, ...night };
    return { resumed, streams: [stream as StreamReport] };
  });
}

const usual = Array.from({ length: 9 }, (): Night => ({}));
const planned = { reads: 'list', requests: 200, chains: 1 } as const;
const limits = { profile: 2_000, management: 10, realtime: 200 };

/** What a plan says, in milliseconds, if the requests of its sample take this long. */
function told(roundTripMs: number, past: ReturnType<typeof history>): number {
  const pastMs = pastPace('members', planned, past)?.milliseconds;
  const load = { group: 'profile', requests: 200, chains: [200], roundTripMs, pastMs } as const;
  return readingTime([load], { limits, concurrency: 64, lanes: 4 });
}

describe('the time of a plan', () => {
  it('stays the same if the sample takes four times as long, once three runs have told the time', () => {
    expect([told(10, []), told(40, [])]).toEqual([2_000, 8_000]);
    expect([told(10, history({}, {})), told(40, history({}, {}))]).toEqual([2_000, 8_000]);
    expect([told(10, history(...usual)), told(40, history(...usual))]).toEqual([10_000, 10_000]);
  });

  it('moves little with the nights: a slow one leaves the median where it is', () => {
    expect(told(10, history({ seconds: 90 }, ...usual))).toBe(10_000);
    const swinging = usual.map((_, index) => ({ seconds: 8 + (index % 5) }));
    const each = swinging.map((_, nights) => told(10, history(...swinging.slice(nights), ...usual)));
    expect(Math.max(...each) / Math.min(...each)).toBeLessThan(1.1);
  });

  it('follows the number of requests', () => {
    expect(pastPace('members', { ...planned, requests: 300 }, history(...usual))?.milliseconds).toBe(15_000);
  });

  it.each<[string, Night]>([
    ['were resumed', { resumed: true }],
    ['failed', { status: 'failed' }],
    ['had far fewer requests', { requests: 50 }],
    ['read in parts', { partitions: { by: ['country'], chains: 12, missed: 0 } }],
    ['asked for nothing', { requests: 0 }],
  ])('does not count runs that %s', (_, other) => {
    const others = usual.map(() => ({ seconds: 90, ...other }));
    expect(pastPace('members', planned, history(...others))).toBeUndefined();
    expect(pastPace('members', planned, history(...others, {}, {}, {}))).toEqual({ milliseconds: 10_000, runs: 3 });
  });

  it('of a list that is read in parts is by runs with about as many parts', () => {
    const split = (chains: number, seconds: number) => ({
      seconds,
      partitions: { by: ['country'], chains, missed: 0 },
    });
    const past = history(...usual, ...[40, 40, 40].map((chains) => split(chains, 1)), ...usual.map(() => split(4, 6)));
    expect(pastPace('members', { reads: 'partitions', requests: 200, chains: 5 }, past)?.milliseconds).toBe(6_000);
    expect(pastPace('others', planned, past)).toBeUndefined();
  });
});

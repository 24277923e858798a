import { describe, expect, it } from 'vitest';
import type { JobReport, StreamReport } from '../../../src/core/run-report.js';
import { budgets, lastTime, readingTime, streamTime } from '../../../src/engine/plan/plan-time.js';
import { shareLines } from '../../../src/output/progress-lines.js';

const limits = { profile: 2_000, management: 10, realtime: 200 };
const load = (chains: readonly number[], roundTripMs: number, lastMs?: number) => {
  const requests = chains.reduce((sum, pages) => sum + pages, 0);
  return { group: 'profile', requests, chains, roundTripMs, lastMs } as const;
};

type Past = Partial<Pick<StreamReport, 'requests' | 'seconds' | 'status' | 'partitions'>> & { resumed?: boolean };

/** Reports of runs, newest first: 200 requests in 10 s, unless a run says otherwise. */
function reports(...runs: readonly Past[]): Pick<JobReport, 'resumed' | 'streams'>[] {
  return runs.map(({ resumed = false, ...run }) => {
    const stream = { name: 'members', status: 'ok', requests: 200, seconds: 10, partitions: null, ...run };
    return { resumed, streams: [stream as StreamReport] };
  });
}

describe('the time of a plan', () => {
  const planned = { reads: 'list', requests: 200 } as const;
  const parts = { by: ['country'], chains: 12, missed: 0 };

  it('is that of the last run', () => {
    expect(lastTime('members', planned, reports({ seconds: 12 }, { seconds: 90 }))).toBe(12_000);
    expect(streamTime(load([200], 40, 12_000), limits)).toBe(12_000);
    expect(lastTime('others', planned, reports({}))).toBeUndefined();
  });

  it.each<[string, Past]>([
    ['were resumed', { resumed: true }],
    ['failed', { status: 'failed' }],
    ['had far fewer requests', { requests: 99 }],
    ['had far more requests', { requests: 401 }],
    ['read in parts', { partitions: parts }],
    ['sent no request', { requests: 0 }],
  ])('passes over runs that %s', (_, other) => {
    const past = { seconds: 90, ...other };
    expect(lastTime('members', planned, reports(past))).toBeUndefined();
    expect(lastTime('members', planned, reports(past, { seconds: 11 }))).toBe(11_000);
  });

  it('of a list that is read in parts is that of a run that read it in parts', () => {
    const past = reports({}, { partitions: parts, seconds: 2 });
    expect(lastTime('members', { reads: 'partitions', requests: 200 }, past)).toBe(2_000);
  });

  it('without such a run is that of the longest chain or of the limit, whichever is more', () => {
    expect(streamTime(load([200, 50], 40), limits)).toBe(8_000);
    expect(streamTime(load(Array(100).fill(200), 40), limits)).toBe(10_000);
    expect(streamTime(load([], 40), limits)).toBe(0);
  });

  it('of streams that are read together is that of the slowest, or of the limit that they share', () => {
    expect(readingTime([], limits)).toBe(0);
    expect(readingTime([load([200], 40), load([100], 40)], limits)).toBe(8_000);
    const many = load(Array(100).fill(200), 40);
    expect(readingTime([many, many], limits)).toBe(20_000);
  });
});

it('the requests of each group are set against its limit', () => {
  const management = { ...load([5], 40), group: 'management' } as const;
  expect(budgets([load([4_000], 40), management, load([1_000], 40)], limits)).toEqual([
    { group: 'profile', limit: 2_000, requests: 5_000, seconds: 2.5 },
    { group: 'management', limit: 10, requests: 5, seconds: 0.5 },
  ]);
});

it('progress says how the budget is shared, and nothing while this process has all of it', () => {
  expect(shareLines({ part: 1, otherProcesses: 0 })).toEqual([]);
  expect(shareLines({ part: 0.5, otherProcesses: 1 })).toEqual([
    "share of the Profile API's limit: 50 %, shared with 1 other process",
  ]);
  expect(shareLines({ part: 0.25, otherProcesses: 3 })).toEqual([
    "share of the Profile API's limit: 25 %, shared with 3 other processes",
  ]);
  expect(shareLines({ part: 0.4, otherProcesses: 0 })).toEqual([
    "share of the Profile API's limit: 40 %, because the service answered 429",
  ]);
});

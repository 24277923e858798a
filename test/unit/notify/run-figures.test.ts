import { describe, expect, it } from 'vitest';
import { runBudget, runFigures } from '../../../src/notify/run-figures.js';
import { id, report, stream } from '../pages/samples.js';

describe('the share of the budget', () => {
  const limit = { group: 'profile', per_second: 200 } as const;

  it('is requests / (limit x seconds of extraction), of the streams of one limit together', () => {
    const two = [
      stream('a', { limit, requests: 1000, seconds: 10 }),
      stream('b', { limit, requests: 200, seconds: 4 }),
    ];
    expect(runBudget({ streams: two })).toBeCloseTo(1200 / (200 * 10));
  });

  it('is that of the fullest limit, and not known without requests or time', () => {
    const other = { group: 'management', per_second: 10 } as const;
    const streams = [
      stream('a', { limit, requests: 100, seconds: 10 }),
      stream('b', { limit: other, requests: 90, seconds: 10 }),
    ];
    expect(runBudget({ streams })).toBeCloseTo(0.9);
    const brief = stream('d', { limit: other, requests: 2, seconds: 0.05 });
    expect(runBudget({ streams: [brief] })).toBeCloseTo(0.2);
    expect(runBudget({ streams: [stream('c', { limit: null })] })).toBeUndefined();
    expect(runBudget({ streams: [stream('c', { seconds: 0 })] })).toBeUndefined();
  });

  it('is reported with a row count that is known only if every stream was read', () => {
    const streams = [stream('a'), stream('b', { status: 'failed', rows: 0 })];
    expect(runFigures(report(id(1), streams), ['a', 'b'])).toMatchObject({ rows: undefined, inserted: 3 });
    expect(runFigures(report(id(1), streams), ['a']).rows).toBe(100);
  });
});

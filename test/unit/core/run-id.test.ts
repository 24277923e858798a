import fc from 'fast-check';
import { expect, it } from 'vitest';
import { newRunId, runIdPattern } from '../../../src/core/run-report.js';
import { runStartedAt } from '../../../src/storage/reports.js';

const times = fc.integer({ min: 0, max: Date.parse('2099-12-31T23:59:59.999Z') });

it('ids of runs sort by the millisecond in which they began, also within one second', () => {
  fc.assert(
    fc.property(times, fc.integer({ min: 1, max: 2_000 }), (began, later) => {
      const [first, second] = [newRunId(began), newRunId(began + later)];
      expect([first < second, first, second]).toEqual([
        true,
        expect.stringMatching(runIdPattern),
        expect.stringMatching(runIdPattern),
      ]);
      expect(runStartedAt(first)).toBe(Math.floor(began / 1000) * 1000);
    }),
  );
});

it('ids of runs that begin in the same millisecond differ', () => {
  const ids = Array.from({ length: 20 }, () => newRunId(999));
  expect(new Set(ids).size).toBeGreaterThan(15);
});

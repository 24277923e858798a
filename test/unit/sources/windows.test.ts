import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cut, merged, planWindows, type Span, settled, uncovered } from '../../../src/sources/windows.js';

const hour = 3_600_000;
const spans = fc.array(
  fc.tuple(fc.nat(200), fc.nat(50)).map(([from, length]): Span => [from, from + length]),
  { maxLength: 8 },
);

function covers(list: readonly Span[], moment: number): boolean {
  return list.some(([from, to]) => moment >= from && moment < to);
}

describe('spans of time', () => {
  it('merge to disjoint ones in order, which cover the same moments', () => {
    fc.assert(
      fc.property(spans, (list) => {
        const result = merged(list);
        for (let moment = 0; moment < 260; moment += 1) expect(covers(result, moment)).toBe(covers(list, moment));
        for (const [index, [from, to]] of result.entries()) {
          expect(from).toBeLessThan(to);
          expect(from).toBeGreaterThan(result[index - 1]?.[1] ?? -1);
        }
      }),
    );
  });

  it('leave uncovered exactly what none of them covers', () => {
    fc.assert(
      fc.property(spans, fc.nat(200), fc.nat(60), (list, from, length) => {
        const gaps = uncovered([from, from + length], list);
        for (let moment = 0; moment < 300; moment += 1) {
          const isOpen = moment >= from && moment < from + length && !covers(list, moment);
          expect(covers(gaps, moment)).toBe(isOpen);
        }
      }),
    );
  });

  it('are cut into windows that join without gaps and are never too long', () => {
    fc.assert(
      fc.property(
        fc.nat(1e9),
        fc.integer({ min: 1, max: 400 * 24 * hour }),
        fc.integer({ min: hour, max: 168 * hour }),
        (from, length, longest) => {
          const windows = cut([[from, from + length]], longest);
          expect(Date.parse(windows[0]?.from ?? '')).toBe(from);
          expect(Date.parse(windows.at(-1)?.to ?? '')).toBe(from + length);
          for (const [index, window] of windows.entries()) {
            const width = Date.parse(window.to) - Date.parse(window.from);
            expect(width).toBeGreaterThan(0);
            expect(width).toBeLessThanOrEqual(longest);
            if (index > 0) expect(window.from).toBe(windows[index - 1]?.to);
          }
        },
      ),
    );
  });
});

describe('the plan of a run', () => {
  const plan = (options: Partial<Parameters<typeof planWindows>[0]>) =>
    planWindows({ sinceMs: 0, untilMs: 1000 * hour, covered: [], lagMs: hour, maxMs: 24 * hour, ...options });
  const extent = (windows: ReturnType<typeof plan>) =>
    merged(windows.map(({ from, to }) => [Date.parse(from), Date.parse(to)] as const));

  it('reads everything since `since` at first', () => {
    expect(extent(plan({ sinceMs: 100 * hour }))).toEqual([[100 * hour, 1000 * hour]]);
  });

  it('then reads only the time since the last run, and the lag before it', () => {
    expect(extent(plan({ covered: [[0, 900 * hour]] }))).toEqual([[899 * hour, 1000 * hour]]);
  });

  it('fills in the time that an earlier `since` asks for', () => {
    expect(extent(plan({ sinceMs: 50 * hour, covered: [[100 * hour, 900 * hour]] }))).toEqual([
      [50 * hour, 100 * hour],
      [899 * hour, 1000 * hour],
    ]);
  });

  it('never leaves a moment unread, however often it runs', () => {
    const runs = fc.array(fc.tuple(fc.integer({ min: 1, max: 500 }), fc.nat(30)), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(runs, fc.nat(100), (steps, since) => {
        let covered: Span[] = [];
        let now = 200 * hour;
        for (const [passed, lag] of steps) {
          now += passed * hour;
          const windows = plan({ sinceMs: since * hour, untilMs: now, covered, lagMs: lag * hour });
          covered = merged([...covered, ...extent(windows)]);
          expect(covered).toEqual([[since * hour, now]]);
        }
      }),
    );
  });
});

describe('the settled time after a reading', () => {
  const day = 24 * hour;
  const at = (days: number) => new Date(days * day).toISOString();
  const read = (from: number, to: number, isEmpty: boolean) => ({ from: at(from), to: at(to), isEmpty });

  it('is every window, up to the start of the reading', () => {
    const found = settled({ covered: [{ from: at(1), to: at(2) }], read: [read(2, 9, true)], beganMs: 8 * day });
    expect(found).toEqual([{ from: at(1), to: at(8) }]);
  });

  it('is of an empty window only the time for which the service is known to have data', () => {
    const windows = [read(80, 81, true), read(81, 82, false), read(92, 94, true), read(94, 100, true)];
    const found = settled({ covered: [], read: windows, beganMs: 100 * day, certainMs: 7 * day });
    expect(found).toEqual([
      { from: at(81), to: at(82) },
      { from: at(93), to: at(100) },
    ]);
  });
});

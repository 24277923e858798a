import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withoutSpan } from '../../../src/engine/admin/partition-state.js';
import { merged, planWindows, type Span } from '../../../src/sources/windows.js';

const hour = 3_600_000;
const base = Date.parse('2026-01-01T00:00:00Z');
const span = fc
  .tuple(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 1, max: 60 }))
  .map(([from, length]): Span => [base + from * hour, base + (from + length) * hour]);
const stored = (spans: readonly Span[]) =>
  merged(spans).map(([from, to]) => ({ from: new Date(from).toISOString(), to: new Date(to).toISOString() }));
const times = (spans: readonly { from: string; to: string }[]) =>
  spans.map(({ from, to }): Span => [Date.parse(from), Date.parse(to)]);

/** The hours that spans cover. */
function hours(spans: readonly Span[]): Set<number> {
  const found = new Set<number>();
  for (const [from, to] of spans) for (let at = from; at < to; at += hour) found.add(at);
  return found;
}

describe('spans of time without one of them', () => {
  it('are the hours of before that are not in it', () => {
    fc.assert(
      fc.property(fc.array(span, { maxLength: 6 }), span, (spans, cut) => {
        const left = hours(times(withoutSpan(stored(spans), cut)));
        const wanted = [...hours(spans)].filter((at) => at < cut[0] || at >= cut[1]);
        expect([...left].sort()).toEqual(wanted.sort());
      }),
    );
  });

  it('are read again by the next run, wherever they were', () => {
    fc.assert(
      fc.property(fc.array(span, { minLength: 1, maxLength: 6 }), span, (spans, cut) => {
        const before = stored(spans);
        const left = withoutSpan(before, cut);
        const untilMs = base + 300 * hour;
        const plan = (covered: readonly { from: string; to: string }[]) =>
          hours(
            planWindows({
              sinceMs: Date.parse(covered[0]?.from ?? '') || untilMs,
              untilMs,
              covered: times(covered),
              lagMs: 0,
              maxMs: hour,
            }).map(({ from, to }): Span => [Date.parse(from), Date.parse(to)]),
          );
        const read = plan(left);
        for (const at of hours(times(before))) expect(read.has(at)).toBe(at >= cut[0] && at < cut[1]);
      }),
    );
  });
});

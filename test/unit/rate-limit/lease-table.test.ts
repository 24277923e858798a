import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LeaseTable, reclaimDelayMs, splitEvenly } from '../../../src/rate-limit/lease-table.js';

const infinite = Number.POSITIVE_INFINITY;

describe('divide', () => {
  it.each([
    ['the same for all who want more', 2_000, [infinite, infinite], [1_000, 1_000]],
    ['all but its need to one if the other needs little', 2_000, [10, infinite], [10, 1_990]],
    ['what is left evenly if nobody wants more', 100, [10, 30], [40, 60]],
    ['all to one that is alone', 7, [0], [7]],
    ['nothing to an idle one if two want the only permit', 1, [0, infinite, infinite], [0, 1, 0]],
  ])('gives %s', (_, total, wanted, parts) => {
    expect(splitEvenly(total, wanted, 0)).toEqual(parts);
  });

  it('gives each its turn if there are fewer permits than processes', () => {
    const wanted = Array.from({ length: 54 }, () => infinite);
    const got = wanted.map(() => 0);
    for (let turn = 0; turn < 54; turn += 1) {
      for (const [index, part] of splitEvenly(10, wanted, turn).entries()) got[index] = (got[index] as number) + part;
    }
    expect(new Set(got)).toEqual(new Set([10]));
  });

  it('divides exactly the total, whatever is wanted', () => {
    const want = fc.oneof(fc.constant(infinite), fc.nat(3_000));
    fc.assert(
      fc.property(fc.nat(2_500), fc.array(want, { minLength: 1, maxLength: 60 }), fc.nat(99), (total, wanted, turn) => {
        const parts = splitEvenly(total, wanted, turn);
        expect(parts.reduce((sum, part) => sum + part, 0)).toBe(total);
        expect(Math.min(...parts)).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

/** A process as the division sees it: it holds its part, and what it has in use. */
interface Process {
  part: number;
  used: number;
  /** Permits from before it was taken for gone, which it cannot use any more: they give it no part. */
  old: number;
  limit: number;
  gone: number | undefined;
}

const step = fc.record({
  who: fc.nat(5),
  does: fc.constantFrom('report', 'report', 'report', 'use', 'die', 'silent'),
  uses: fc.nat(40),
  waiting: fc.boolean(),
  after: fc.nat(400),
});

const undivided = () => new LeaseTable();
/** A process that wants all it can get. */
const busy = (part: number) => ({ limit: 100, part, held: part, used: part, waiting: true });

describe('LeaseTable', () => {
  it('never lets all processes together hold more than the limit, whatever they do and however they end', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.array(step, { maxLength: 120 }), (limit, steps) => {
        const division = undivided();
        const processes = new Map<number, Process>();
        const gone: Process[] = [];
        let now = 0;
        for (const { who, does, uses, waiting, after } of steps) {
          now += after;
          const each = processes.get(who) ?? { part: 0, used: 0, old: uses, limit, gone: undefined };
          if (does === 'report') {
            const { part } = each;
            const held = Math.max(part, each.used, each.old);
            each.part = division.report(who, { limit, part, held, used: each.used, waiting }, limit, now);
            each.old = 0;
            processes.set(who, each);
          } else if (does === 'use') {
            // More only while the part allows it; less at any time, as responses grow old.
            each.used = Math.min(uses, Math.max(each.part, each.used));
          } else {
            if (does === 'die') division.leave(who, now);
            else division.dropSilent(now + 1, now);
            const ended = does === 'die' ? [who] : [...processes.keys()];
            for (const key of ended) {
              const process = processes.get(key);
              if (process !== undefined) gone.push({ ...process, gone: now });
              processes.delete(key);
            }
          }
          const lately = gone.filter((process) => now - (process.gone as number) < reclaimDelayMs);
          const held = [...processes.values(), ...lately].reduce(
            (sum, { part, used }) => sum + Math.max(part, used),
            0,
          );
          expect(held).toBeLessThanOrEqual(limit);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('gives a newcomer nothing before the others have given up their part', () => {
    const division = undivided();
    expect(division.report('old', busy(0), 100, 0)).toBe(100);
    expect(division.report('new', busy(0), 100, 0)).toBe(0);
    expect(division.report('old', busy(100), 100, 100)).toBe(50);
    expect(division.report('new', busy(0), 100, 100)).toBe(0);
    expect(division.report('old', { ...busy(50), held: 70 }, 100, 200)).toBe(50);
    expect(division.report('new', busy(0), 100, 200)).toBe(30);
  });

  it('gives out the part of a dead process when its last second has passed', () => {
    const division = undivided();
    division.report('one', busy(50), 100, 0);
    division.report('two', busy(50), 100, 0);
    division.leave('two', 0);
    expect(division.report('one', busy(50), 100, reclaimDelayMs - 1)).toBe(50);
    expect(division.report('one', busy(50), 100, reclaimDelayMs)).toBe(100);
  });

  it('gives nothing for permits from before a suspension: others have them', () => {
    const division = undivided();
    division.report('one', busy(0), 100, 0);
    expect(division.report('two', { ...busy(0), held: 30 }, 100, 0)).toBe(0);
    expect(division.report('one', busy(100), 100, 100)).toBe(50);
    expect(division.report('one', busy(50), 100, 200)).toBe(50);
    expect(division.report('two', { ...busy(0), held: 30 }, 100, 200)).toBe(50);
  });

  it('waits for permits that were handed out before it began', () => {
    const division = new LeaseTable([{ at: 2_000, permits: 40 }]);
    expect(division.report('one', busy(0), 100, 0)).toBe(60);
    expect(division.isSettled(1_999)).toBe(false);
    expect(division.report('one', busy(60), 100, 2_000)).toBe(100);
    expect(division.isSettled(2_000)).toBe(true);
  });
});

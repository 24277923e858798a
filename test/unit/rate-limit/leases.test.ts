import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type LeaseResponse, nextLeases, reclaimDelayMs, splitEvenly } from '../../../src/rate-limit/leases.js';

const infinite = Number.POSITIVE_INFINITY;

describe('divide', () => {
  it.each([
    ['the same for all who want more', 2_000, [infinite, infinite], [1_000, 1_000]],
    ['all but its need to one if the other needs little', 2_000, [10, infinite], [10, 1_990]],
    ['the rest evenly if no process wants more', 100, [10, 30], [40, 60]],
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

/** A process: it has its part until its lease ends, and permits in use. */
interface Process {
  part: number;
  until: number;
  used: number;
  /** Until when the permits count that it had when it ended. */
  counts: number;
}

const leaseMs = 1_500;
const none: LeaseResponse = { now: 0, answered: 0, refused: 0, pause_until: 0, members: {} };

interface Report {
  readonly now: number;
  readonly part: number;
  readonly held: number;
  readonly target: number;
  readonly total: number;
  readonly lease?: number;
}

function reported(leases: LeaseResponse, member: string, { now, target, total, lease = leaseMs, ...demand }: Report) {
  const number = (leases.members[member]?.number ?? 0) + 1;
  const rest = { answered: 0, refused: 0, pauseMs: 0, used: 0, waiting: true, limit: 100, account: 'a' };
  const wanted = () => ({ target, total });
  return nextLeases({ ...leases, now }, { ...rest, ...demand, member, number, leaseMs: lease, wanted });
}

const step = fc.record({
  who: fc.nat(5),
  what: fc.constantFrom('report', 'report', 'report', 'use', 'leave', 'die'),
  uses: fc.nat(40),
  wants: fc.nat(60),
  after: fc.nat(900),
});

describe('nextLeases', () => {
  it('never lets all processes together hold more than the limit, whatever they want and however they end', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.array(step, { maxLength: 120 }), (limit, steps) => {
        let leases = none;
        const processes = new Map<number, Process>();
        const gone: Process[] = [];
        let now = 0;
        const held = ({ part, until, used }: Process) => Math.max(now < until ? part : 0, used);
        for (const { who, what, uses, wants, after } of steps) {
          now += after;
          // Permits in use are those of the last second: after a longer silence there are none.
          for (const each of processes.values()) if (now >= each.until + reclaimDelayMs) each.used = 0;
          const each = processes.get(who) ?? { part: 0, until: 0, used: 0, counts: 0 };
          const part = now < each.until ? each.part : 0;
          if (what === 'report') {
            const demand = { part, held: Math.max(part, each.used), target: wants, total: limit };
            leases = reported(leases, String(who), { now, ...demand });
            processes.set(who, { ...each, part: leases.members[who]?.part ?? 0, until: now + leaseMs });
          } else if (what === 'use') {
            // More only while the part allows it; less at any time, as responses grow old.
            each.used = Math.min(uses, Math.max(part, each.used));
          } else if (processes.delete(who)) {
            const ended = { ...each, part: 0, counts: now + reclaimDelayMs };
            if (what === 'leave')
              leases = reported(leases, String(who), {
                now,
                part: 0,
                held: each.used,
                target: 0,
                total: limit,
                lease: 0,
              });
            gone.push(ended);
          }
          const lately = gone.filter(({ counts }) => now < counts);
          const all = [...processes.values(), ...lately].reduce((sum, process) => sum + held(process), 0);
          expect(all).toBeLessThanOrEqual(limit);
        }
      }),
      { numRuns: 500 },
    );
  });

  /** A process that wants half of 100, as another one that it knows does. */
  const half = (now: number, part: number, held = part) => ({ now, part, held, target: 50, total: 100 });

  it('gives a newcomer nothing before the others have given up their part', () => {
    let leases = reported(none, 'old', { ...half(0, 0), target: 100 });
    expect(leases.members.old?.part).toBe(100);
    leases = reported(leases, 'new', half(0, 0));
    expect(leases.members.new?.part).toBe(0);
    leases = reported(leases, 'old', half(100, 100));
    expect(leases.members.old?.part).toBe(50);
    leases = reported(leases, 'new', half(100, 0));
    expect(leases.members.new?.part).toBe(0);
    leases = reported(leases, 'old', half(200, 50, 70));
    leases = reported(leases, 'new', half(200, 0));
    expect(leases.members.new?.part).toBe(30);
  });

  it('gives out the part of a dead process when its lease and its last second have passed', () => {
    const end = leaseMs + reclaimDelayMs;
    const leases = reported(reported(none, 'one', half(0, 0)), 'two', half(0, 0));
    expect(reported(leases, 'one', { ...half(end - 1, 50), target: 100 }).members.one?.part).toBe(50);
    expect(reported(leases, 'one', { ...half(end, 50), target: 100 }).members.one?.part).toBe(100);
  });

  it('of a process that left only the permits in use stay, for its last second', () => {
    let leases = reported(none, 'one', { ...half(0, 0), target: 100 });
    leases = reported(leases, 'one', { now: 10, part: 0, held: 30, target: 0, total: 100, lease: 0 });
    const everything = { part: 0, held: 0, target: 100, total: 100 };
    expect(reported(leases, 'two', { now: 20, ...everything }).members.two?.part).toBe(70);
    expect(reported(leases, 'two', { now: 10 + reclaimDelayMs, ...everything }).members.two?.part).toBe(100);
  });
});

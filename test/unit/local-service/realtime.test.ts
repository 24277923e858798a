import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CountLog, MemberSet } from '../../../src/local-service/realtime/collection.js';
import { EventIds } from '../../../src/local-service/realtime/tenant-realtime.js';

describe('the roster of a collection', () => {
  const sizes = fc
    .integer({ min: 1, max: 10_000_000 })
    .chain((people) => fc.record({ people: fc.constant(people), size: fc.integer({ min: 1, max: people }) }));

  it('holds the given number of the first people', () => {
    fc.assert(
      fc.property(sizes, ({ people, size }) => {
        const roster = new MemberSet(size, people);
        expect(roster.numberAt(size - 1)).toBe(people - 1);
        expect(roster.numberAt(size)).toBeGreaterThanOrEqual(people);
      }),
    );
  });

  it('finds the place of everybody in it, and of no one else', () => {
    fc.assert(
      fc.property(sizes, fc.nat({ max: 0xffff_ffff }), ({ people, size }, number) => {
        const roster = new MemberSet(size, people);
        const place = roster.placeOf(number);
        if (place >= 0) expect(roster.numberAt(place)).toBe(number);
        const held = roster.numberAt(number % size);
        expect(roster.placeOf(held)).toBe(number % size);
        if (held > 0 && size > 1 && roster.numberAt((number % size) - 1) !== held - 1) {
          expect(roster.placeOf(held - 1)).toBe(-1);
        }
      }),
    );
  });

  it('of size 0 holds no one', () => {
    const roster = new MemberSet(0, 0);
    expect([roster.numberAt(0), roster.placeOf(0)]).toEqual([Number.POSITIVE_INFINITY, -1]);
  });
});

describe('ids of events', () => {
  it('are taken once, and forgotten only after the maximum number of others', () => {
    const ids = new EventIds(['saved']);
    expect([ids.take('saved'), ids.take('new'), ids.take('new')]).toEqual([false, true, false]);
    for (let other = 0; other < EventIds.most - 1; other += 1) ids.take(`other ${other}`);
    expect([ids.take('new'), ids.take('saved')]).toEqual([false, true]);
    expect(ids.all.length).toBe(EventIds.most);
  });
});

describe('the sizes that a collection has had', () => {
  const origin = Date.UTC(2026, 0, 1);
  const steps = fc.array(fc.record({ ms: fc.integer({ min: 0, max: 300_000 }), total: fc.nat(1000) }), {
    maxLength: 50,
  });

  it('are those of a plain list, to the minute', () => {
    fc.assert(
      fc.property(steps, fc.nat(10_000_000), (input, offset) => {
        const log = new CountLog(origin, 500);
        const plain: { at: number; total: number }[] = [];
        let now = origin;
        for (const { ms, total } of input) {
          now += ms;
          log.add(now, total);
          plain.push({ at: now, total });
        }
        const minute = origin + Math.ceil(offset / 60_000) * 60_000;
        const expected = plain.filter(({ at }) => at < minute).at(-1)?.total ?? 500;
        expect(log.before(minute)).toBe(expected);
        expect(new CountLog(origin, 500, log.all).before(minute)).toBe(expected);
      }),
    );
  });

  it('never shrink before the first start, and reach the size of that time', () => {
    fc.assert(
      fc.property(fc.nat(100_000), fc.nat(), fc.nat(), (first, one, other) => {
        const log = new CountLog(origin, first);
        const [early, late] = [origin - Math.max(one, other) * 1000, origin - Math.min(one, other) * 1000];
        expect(log.before(early)).toBeLessThanOrEqual(log.before(late));
        expect(log.before(origin)).toBe(first);
      }),
    );
  });

  it('stay in order when the clock goes back', () => {
    const log = new CountLog(origin, 1);
    log.add(origin + 3_600_000, 2);
    log.add(origin + 60_000, 3);
    expect([log.before(origin + 3_600_000), log.before(origin + 7_200_000)]).toEqual([1, 3]);
  });
});

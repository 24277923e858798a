import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DayShares, Moment, Population, phaseOf, variantOf } from '../../../src/local-service/data/population.js';

const share = fc.double({ min: 0, max: 1, noNaN: true });
const day = fc.record({ updated: share, inserted: share, deleted: share });
const days = fc.array(day, { maxLength: 8 });
const initial = 300;

function versions(key: number, passed: readonly DayShares[]): number[] {
  const population = new Population(key, initial);
  population.moveTo(passed);
  return Array.from({ length: population.moment.end }, (_, number) => population.version(number));
}

describe('the profiles of a tenant', () => {
  it('are updated at most once a day, never come back, and are new when inserted', () => {
    fc.assert(
      fc.property(fc.nat(), days, day, (key, passed, next) => {
        const before = versions(key, passed);
        const after = versions(key, [...passed, next]);
        expect(after.length - before.length).toBe(Math.round(initial * next.inserted));
        for (const [number, old] of before.entries()) {
          const now = after[number] as number;
          if (old < 0) expect(now).toBe(-1);
          else if (now >= 0) expect([0, 1]).toContain(now - old);
        }
        for (const born of after.slice(before.length)) expect(born).toBe(0);
      }),
    );
  });

  it('change in the shares of each day', () => {
    const population = new Population(3, 100_000);
    const updated: number[] = [];
    let before = population.moment;
    for (let passed = 1; passed <= 30; passed += 1) {
      population.moveTo(Array.from({ length: passed }, () => ({ updated: 0.01, inserted: 0, deleted: 0.02 })));
      let [changed, gone, there] = [0, 0, 0];
      for (let number = 0; number < 100_000; number += 1) {
        const old = population.version(number, before);
        if (old < 0) continue;
        there += 1;
        const now = population.version(number);
        if (now < 0) gone += 1;
        else if (now !== old) changed += 1;
      }
      expect(gone / there).toBeCloseTo(0.02, 2);
      updated.push(changed / (there - gone));
      before = population.moment;
    }
    for (const found of updated) expect(found).toBeCloseTo(0.01, 2);
  });

  it('are all updated on a day with the share 1, and none with the share 0', () => {
    const moment = new Moment(9, initial, [{ updated: 1, inserted: 0, deleted: 0 }]);
    for (let phase = 0; phase < 1 << 20; phase += 997) expect(moment.updates(5, phase)).toBe(1);
    const still = new Moment(9, initial, [{ updated: 0, inserted: 0, deleted: 1 }]);
    for (let number = 0; number < initial; number += 1) {
      expect(still.updates(number, 12_345)).toBe(0);
      expect(still.gone(number)).toBe(true);
    }
  });

  it('get another activity with each update', () => {
    const population = new Population(11, initial);
    for (let number = 0; number < initial; number += 1) {
      const variant = variantOf(population.codeOf(number));
      const seen = Array.from({ length: 40 }, (_, version) =>
        version === 0 ? variant : population.activityAt(number, version, variant),
      );
      expect(new Set(seen).size).toBe(40);
    }
  });

  it('have ids that point to their numbers', () => {
    fc.assert(
      fc.property(fc.nat(), fc.integer({ min: 0, max: 0xffff_ffff }), (key, number) => {
        const population = new Population(key, initial);
        expect(population.numberOf(population.idOf(number))).toBe(number);
      }),
    );
  });

  it('have phases over the whole range', () => {
    const population = new Population(1, initial);
    const phases = Array.from({ length: 10_000 }, (_, number) => phaseOf(population.codeOf(number)));
    expect(Math.min(...phases)).toBeLessThan(1000);
    expect(Math.max(...phases)).toBeGreaterThan((1 << 20) - 1000);
  });
});

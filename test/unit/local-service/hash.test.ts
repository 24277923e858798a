import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Draws, mix, unmix } from '../../../src/local-service/data/hash.js';

const bits = fc.integer({ min: 0, max: 0xffff_ffff });

it('unmix reverses mix', () => {
  fc.assert(fc.property(bits, (value) => unmix(mix(value)) === value));
});

it('mix gives 32 bits, also for negative numbers', () => {
  fc.assert(
    fc.property(fc.integer(), (value) => {
      const mixed = mix(value);
      return Number.isInteger(mixed) && mixed >= 0 && mixed <= 0xffff_ffff;
    }),
  );
});

it('draws depend on their seed alone and spread evenly', () => {
  const draws = (seed: number) => {
    const source = new Draws(seed);
    return Array.from({ length: 10_000 }, () => source.below(10));
  };
  expect(draws(5)).toEqual(draws(5));
  expect(draws(5)).not.toEqual(draws(6));
  const counts = new Map<number, number>();
  for (const digit of draws(5)) counts.set(digit, (counts.get(digit) ?? 0) + 1);
  for (let digit = 0; digit < 10; digit += 1) expect(Math.abs((counts.get(digit) ?? 0) - 1000)).toBeLessThan(150);
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { streamNameFor } from '../../../../src/cli/init/streams.js';
import { streamNameSchema } from '../../../../src/config/names.js';

const names = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.stringMatching(/^[a-z0-9_ -]{0,60}$/),
  fc.constantFrom('cdsync', 'orders_history', 'x_as_of', 'a__b', '', '2024', 'Ünïcode Índex', 'x'.repeat(80)),
);

describe('the name of a stream after its index', () => {
  it('is always allowed, and never given twice', () => {
    fc.assert(
      fc.property(fc.array(names, { maxLength: 12 }), fc.constantFrom('profiles', 'members'), (texts, kind) => {
        const taken = new Set<string>();
        for (const text of texts) {
          const name = streamNameFor(text, kind as 'profiles', taken);
          expect(streamNameSchema.safeParse(name).success).toBe(true);
          expect(taken.has(name)).toBe(false);
          taken.add(name);
        }
      }),
    );
  });

  it.each([
    ['loyalty_members', 'loyalty_members'],
    ['Loyalty Members (EU)', 'loyalty_members_eu'],
    ['Größe', 'gro_e'],
    ['Crème', 'creme'],
    ['2024 buyers', 'buyers'],
    ['order_history', 'order_history_profiles'],
    ['cdsync', 'cdsync_profiles'],
    ['日本', 'profiles'],
  ])('keeps as much as it can of %s', (text, name) => {
    expect(streamNameFor(text, 'profiles', new Set())).toBe(name);
  });

  it('distinguishes streams of one name', () => {
    expect(streamNameFor('vip', 'members', new Set(['vip']))).toBe('vip_members');
    expect(streamNameFor('vip', 'members', new Set(['vip', 'vip_members']))).toBe('vip_2');
  });
});

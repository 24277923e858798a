import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import bigquery from '../../../connectors/bigquery/index.js';
import { TargetNames } from '../../../src/delivery/target-names.js';

const rules = bigquery.capabilities.identifiers ?? {};

describe('names with rules for their beginning', () => {
  it.each([
    ['100%', /^_100__[0-9a-f]{6}$/],
    ['_PARTITIONTIME', /^__PARTITIONTIME_[0-9a-f]{6}$/],
    ['_file_name', /^__file_name_[0-9a-f]{6}$/],
    ['日本', /^___[0-9a-f]{6}$/],
  ])('replaces %s', (name, input) => {
    expect(new TargetNames(rules).give(name)).toMatch(input);
  });

  it('stay if they follow the rules', () => {
    const names = new TargetNames(rules);
    expect(['id', '_synced_at', 'Order_2'].map((name) => names.give(name))).toEqual(['id', '_synced_at', 'Order_2']);
  });

  it('gives every name its own that is allowed, the same each time', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ unit: 'grapheme', maxLength: 400 }), { maxLength: 8 }), (written) => {
        const [first, second] = [new TargetNames(rules), new TargetNames(rules)];
        const input = written.map((name) => first.give(name));
        expect(written.map((name) => second.give(name))).toEqual(input);
        expect(new Set(input.map((name) => name.toLowerCase())).size).toBe(written.length);
        for (const name of input) expect(name).toMatch(/^(?!_partition)[a-z_]\w{0,299}$/i);
      }),
    );
  });
});

describe('names for a destination without naming rules', () => {
  it('stay as they are up to 63 bytes; longer ones are cut between characters', () => {
    const names = new TargetNames();
    expect(['id', 'é'.repeat(31), 'a b;"c'].map((name) => names.give(name))).toEqual(['id', 'é'.repeat(31), 'a b;"c']);
    expect(names.give('é'.repeat(32))).toMatch(/^é{27}_[0-9a-f]{8}$/);
  });

  it('that differ only in case, or are reserved, or empty, get digits of their own', () => {
    const names = new TargetNames({ reserved: ['user'] });
    expect(names.give('Id')).toBe('Id');
    for (const name of ['id', 'USER', '']) expect(names.give(name)).toMatch(new RegExp(`^${name}_[0-9a-f]{6}$`));
    const exact = new TargetNames({ ignoresCase: false });
    expect(['Id', 'id'].map((name) => exact.give(name))).toEqual(['Id', 'id']);
  });
});

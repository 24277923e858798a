import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sameWatermark, type Watermark, watermarkColumns, watermarkFrom } from '../../../src/sdk/former/watermark.js';

const watermarks: fc.Arbitrary<Watermark> = fc.record({
  destination: fc.constant('crm'),
  stream: fc.constant('members'),
  table: fc.constantFrom('members', 'people'),
  storeId: fc.constantFrom('a', 'b'),
  sequence: fc.nat(2),
  definition: fc.constantFrom('x', 'y'),
  deliveredAt: fc.constantFrom('2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.001Z'),
});

describe('two readings of a watermark', () => {
  it('are the same where store, sequence and time are', () => {
    fc.assert(
      fc.property(watermarks, watermarks, (one, other) => {
        const place = ({ storeId, sequence, deliveredAt }: Watermark) =>
          JSON.stringify([storeId, sequence, deliveredAt]);
        expect(sameWatermark(one, other)).toBe(place(one) === place(other));
        expect(sameWatermark(one, { ...one })).toBe(true);
      }),
    );
  });

  it('are the same where neither found one, and not where one did', () => {
    fc.assert(
      fc.property(watermarks, (one) => {
        expect([sameWatermark(one, undefined), sameWatermark(undefined, one)]).toEqual([false, false]);
      }),
    );
    expect(sameWatermark(undefined, undefined)).toBe(true);
  });
});

it('a row of the table of watermarks, whatever the driver makes of its integer, is the watermark', () => {
  const values = ['crm', 'members', 'people', 'store', 7n, 'definition', '2026-01-01T00:00:00.000Z'];
  const row = Object.fromEntries(watermarkColumns.map((name, index) => [name, values[index]]));
  expect(watermarkFrom(row)).toEqual({
    destination: 'crm',
    stream: 'members',
    table: 'people',
    storeId: 'store',
    sequence: 7,
    definition: 'definition',
    deliveredAt: '2026-01-01T00:00:00.000Z',
  });
});

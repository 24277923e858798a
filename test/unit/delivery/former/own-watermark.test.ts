import { expect, it } from 'vitest';
import { ownWatermark } from '../../../../src/delivery/former/own-watermark.js';
import type { Watermark } from '../../../../src/sdk/former/watermark.js';

function mark(destination: string, stream: string, table: string): Watermark {
  return {
    destination,
    stream,
    table,
    storeId: 's',
    sequence: 1,
    definition: 'd',
    deliveredAt: '2026-01-01T00:00:00Z',
  };
}
const own = { destination: 'crm', stream: 'members', table: 'people' };

it('a stream finds its watermark among those of others', () => {
  const all = [mark('crm', 'segments', 'segments'), mark('lake', 'members', 'lake'), mark('crm', 'members', 'people')];
  expect(ownWatermark(all, own, false)).toBe(all[2]);
  expect(ownWatermark(all.slice(0, 2), own, false)).toBeUndefined();
});

it('a stream finds its watermark even if its table has a new name', () => {
  const moved = mark('crm', 'members', 'members');
  expect(ownWatermark([moved], own, false)).toBe(moved);
});

it.each([
  ['another stream', mark('crm', 'segments', 'people')],
  ['another destination', mark('lake', 'members', 'people')],
])('a table of %s is not written to, unless it is to be taken over', (_, other) => {
  const mine = mark('crm', 'members', 'people');
  for (const all of [[other], [other, mine], [mine, other]]) {
    expect(() => ownWatermark(all, own, false)).toThrow(
      expect.objectContaining({
        code: 'table_taken',
        stream: 'members',
        message: `table "people" belongs to stream "${other.stream}" of destination "${other.destination}"`,
      }),
    );
    expect(ownWatermark(all, own, true)).toBe(all.includes(mine) ? mine : undefined);
  }
});

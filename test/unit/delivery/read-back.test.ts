import { describe, expect, it } from 'vitest';
import type { PieceData } from '../../../src/delivery/load-data.js';
import type { DeliveredColumn } from '../../../src/delivery/table/columns.js';
import { readBackOf } from '../../../src/delivery/table/read-back.js';

describe('rows that are not as they were written', () => {
  it.each([
    [true, 'Nothing of this load was kept'],
    [false, 'The next delivery loads the rows again'],
  ])('fail the load, and the error says what becomes of it: rolled back %s', async (isRolledBack, outcome) => {
    const data = {
      async *expected() {
        yield { n: 2, s: '0' };
      },
    } as unknown as PieceData;
    const readBack = readBackOf({
      stream: 'people',
      table: 'people',
      columns: [],
      data,
      live: () => undefined,
      isRolledBack,
    });
    const found = {
      rows: 1,
      sum: '0',
      sums: async () => new Map(),
      left: 0,
      differing: [],
      live: undefined,
    };
    const checked = readBack.check([], async () => found);
    await expect(checked).rejects.toMatchObject({
      code: 'delivery_differs',
      message: 'table "people" is not as it was written: it has 1 row, and 2 were sent',
      hint: expect.stringContaining(outcome),
    });
  });
});

it('the hint asks for rows with the same key if there are more than were sent', async () => {
  const data = {
    async *expected() {
      yield { n: 2, s: '0' };
    },
  } as unknown as PieceData;
  const columns = [{ name: '_synced_at', isKey: true } as unknown as DeliveredColumn];
  const task = { stream: 'people', table: 'people', columns, data, live: () => undefined, isRolledBack: true };
  const found = { rows: 3, sum: '0', sums: async () => new Map(), left: 0, differing: [], live: undefined };
  const checked = readBackOf(task).check([], async () => found);
  await expect(checked).rejects.toMatchObject({ hint: expect.stringContaining('rows with the same key') });
});

it('both sides are summed at the same time, and an error of either waits for the other', async () => {
  let finds = () => {};
  const isFinding = new Promise<void>((resolve) => {
    finds = resolve;
  });
  let isSummed = false;
  const data = {
    async *expected() {
      await isFinding;
      isSummed = true;
      yield { n: 0, s: '0' };
    },
  } as unknown as PieceData;
  const task = { stream: 'people', table: 'people', columns: [], data, live: () => undefined, isRolledBack: true };
  const checked = readBackOf(task).check([], async () => {
    finds();
    throw new Error('gone');
  });
  await expect(checked).rejects.toThrow('gone');
  expect(isSummed).toBe(true);
});

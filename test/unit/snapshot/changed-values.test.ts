import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { wideColumns } from '../../../src/columns/row-hash.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeAll(async () => {
  snapshots = await Snapshots.open();
});
afterAll(() => snapshots.close());

const rows = 12;

/** Rows in which some columns are numbers, some are texts, and some of those are NULL. */
function table(columns: number, changed: number): GivenRow[] {
  return Array.from({ length: rows }, (_, row) => {
    const values = Array.from({ length: columns }, (_, at) => {
      const value = at % 7 === 0 && row % (1 + (at % 5)) === 0 ? changed : 0;
      return [`c${at}`, at % 2 === 0 ? value : value === 0 ? null : `text ${value}`];
    });
    return { id: `p${row}`, ...Object.fromEntries(values) };
  });
}

/** In how many rows each column has another value. */
function differences(before: readonly GivenRow[], after: readonly GivenRow[]): Record<string, number> {
  const names = Object.keys(before[0] as GivenRow);
  return Object.fromEntries(
    names.map((name) => [name, before.filter((row, index) => row[name] !== after[index]?.[name]).length]),
  );
}

describe('the values that changed', () => {
  it.each([
    ['few', 20],
    ['so many that they are compared some at a time', wideColumns + 1],
  ])('are counted column by column where columns are %s', async (_, columns) => {
    const stream = `wide_${columns}`;
    const [before, after] = [table(columns, 0), table(columns, 1)];
    await snapshots.run(stream, before);
    await snapshots.run(stream, after, { guards: { maxChanged: { share: 1, atLeast: rows } } });
    expect(snapshots.changedValues).toMatchObject({ updated: rows, compared: rows });
    expect(Object.fromEntries(snapshots.changedValues?.columns ?? [])).toEqual(differences(before, after));
  });
});

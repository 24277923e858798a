import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Kind } from '../../../src/columns/column-shape.js';
import type { StoredColumn } from '../../../src/columns/columns.js';
import { hashesComparable } from '../../../src/snapshot/diff.js';
import type { StreamState } from '../../../src/snapshot/stream-state.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeAll(async () => {
  snapshots = await Snapshots.open();
});
afterAll(() => snapshots.close());

/** Values of one kind or of several, so that a column's type widens. */
const kinds = [
  fc.constant(null),
  fc.integer({ min: -3, max: 3 }),
  fc.constantFrom(0.5, -2.25),
  fc.constantFrom('', 'x', '1'),
];
const anyValue = fc.oneof(...kinds);

/** The rows of a reading: each key at most once, and mostly one kind of value in a column. */
const list: fc.Arbitrary<GivenRow[]> = fc
  .tuple(fc.constantFrom(...kinds, anyValue), fc.constantFrom(...kinds, anyValue))
  .chain(([a, b]) =>
    fc.uniqueArray(
      fc.record({ id: fc.constantFrom('p1', 'p2', 'p3', 'p4', "it's", 'ä'), a, b }, { requiredKeys: ['id'] }),
      { selector: ({ id }) => id, maxLength: 6 },
    ),
  );

/** A row as the model compares it: null equals missing, and a number equals itself in any type. */
function content(row: GivenRow, without: readonly string[] = []): string {
  const notices = Object.entries(row).filter(([name, value]) => value !== null && !without.includes(name));
  return JSON.stringify(notices.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function model(
  before: ReadonlyMap<string, GivenRow>,
  after: readonly GivenRow[],
  coverage: 'everything' | 'additions',
) {
  const found = { inserted: 0, updated: 0, deleted: 0, unchanged: 0 };
  for (const row of after) {
    const known = before.get(String(row.id));
    if (known === undefined) found.inserted += 1;
    else if (content(known) === content(row)) found.unchanged += 1;
    else found.updated += 1;
  }
  const absent = before.size - found.updated - found.unchanged;
  if (coverage === 'everything') found.deleted = absent;
  else found.unchanged += absent;
  return found;
}

/** So little memory that each join has one key. */
const oneKeyAtOnce = 0.0004;

let number = 0;
/** A name that no other case has used. */
function newStream(): string {
  number += 1;
  return `s${number}`;
}

describe('what changed', () => {
  test.each([
    ['everything', 256],
    ['everything', oneKeyAtOnce],
    ['additions', 256],
    ['additions', oneKeyAtOnce],
  ] as const)(
    'agrees with a model in plain JavaScript, for readings of %s, whatever types the columns widen to (%d MB)',
    async (coverage, memoryMb) => {
      await fc.assert(
        fc.asyncProperty(fc.array(list, { minLength: 2, maxLength: 4 }), async (readings) => {
          const own = await Snapshots.open();
          try {
            const before = new Map<string, GivenRow>();
            for (const rows of readings) {
              const expected = model(before, rows, coverage);
              const { task } = await own.run('members', rows, { coverage, memoryMb });
              expect(task.difference).toMatchObject(expected);
              if (coverage === 'everything') before.clear();
              for (const row of rows) before.set(String(row.id), row);
              const stored = await own.rows('members');
              expect(task.rows).toBe(before.size);
              expect(stored.map(({ id }) => id).sort()).toEqual([...before.keys()].sort());
            }
          } finally {
            await own.close();
          }
        }),
        { numRuns: 6 },
      );
    },
  );

  test('never takes a value from a row whose stream keeps what its rows once had', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(list, { minLength: 2, maxLength: 4 }), async (readings) => {
        const own = await Snapshots.open();
        try {
          const before = new Map<string, GivenRow>();
          for (const rows of readings) {
            const merged = rows.map((row): GivenRow => {
              const notices = Object.entries(row).filter(([, value]) => value !== null);
              return { ...before.get(String(row.id)), ...Object.fromEntries(notices) };
            });
            const expected = model(before, merged, 'additions');
            const options = { coverage: 'additions', details: ['a', 'b'], rowsInPart: 2 } as const;
            const { task } = await own.run('members', rows, options);
            expect(task.difference).toMatchObject(expected);
            for (const row of merged) before.set(String(row.id), row);
            const filled = (stored: readonly GivenRow[], name: string) =>
              stored
                .filter((row) => row[name] !== null && row[name] !== undefined)
                .map(({ id }) => id)
                .sort();
            const stored = await own.rows('members');
            for (const name of ['a', 'b']) expect(filled(stored, name)).toEqual(filled([...before.values()], name));
          }
        } finally {
          await own.close();
        }
      }),
      { numRuns: 6 },
    );
  });

  test('is everything on the first run', async () => {
    const { task } = await snapshots.run(newStream(), [{ id: 'a' }, { id: 'b' }]);
    const none = { updated: 0, deleted: 0, unchanged: 0, refreshed: 0, cached: 0 };
    expect(task.difference).toEqual({ inserted: 2, ...none, rows: 2 });
  });

  test('is nothing if only the order of rows, columns and parts differs', async () => {
    const stream = newStream();
    await snapshots.run(stream, [
      { id: 'a', x: 1, y: 'u' },
      { id: 'b', x: 2, y: 'v' },
    ]);
    const again = await snapshots.run(
      stream,
      [
        { y: 'v', x: 2, id: 'b' },
        { y: 'u', x: 1, id: 'a' },
      ],
      { rowsInPart: 1 },
    );
    expect(again.task.difference).toMatchObject({ updated: 0, unchanged: 2 });
    expect(again.changes).toEqual([]);
    expect(again.sequence).toBe((await snapshots.state()).sequence);
  });

  test('includes rows that have a value in a new column, and no others', async () => {
    const stream = newStream();
    await snapshots.run(stream, [{ id: 'a' }, { id: 'b' }]);
    const { task } = await snapshots.run(stream, [
      { id: 'a', tier: null },
      { id: 'b', tier: 'gold' },
    ]);
    expect(task.difference).toMatchObject({ updated: 1, unchanged: 1 });
  });

  test('has no row whose values only got a wider type', async () => {
    const stream = newStream();
    await snapshots.run(stream, [
      { id: 'a', n: 1 },
      { id: 'b', n: 2 },
    ]);
    const { task } = await snapshots.run(stream, [
      { id: 'a', n: 1 },
      { id: 'b', n: 2.5 },
    ]);
    expect(task.difference).toMatchObject({ updated: 1, unchanged: 1 });
    const text = await snapshots.run(stream, [
      { id: 'a', n: 1 },
      { id: 'b', n: 'two' },
    ]);
    expect(text.task.difference).toMatchObject({ updated: 1, unchanged: 1 });
  });

  test('has no row in which only an untracked column differs; its new value is still kept', async () => {
    const stream = newStream();
    const untracked = ['seen'];
    await snapshots.run(stream, [{ id: 'a', n: 1, seen: 1 }], { untracked });
    const { task } = await snapshots.run(stream, [{ id: 'a', n: 1, seen: 2 }], { untracked });
    expect(task.difference).toMatchObject({ updated: 0, unchanged: 1, refreshed: 1 });
    expect(await snapshots.rows(stream)).toEqual([{ id: 'a', n: 1, seen: 2 }]);
  });

  test('counts all rows again once a column becomes tracked', async () => {
    const stream = newStream();
    await snapshots.run(stream, [{ id: 'a', n: 1 }], { untracked: ['n'] });
    const { task } = await snapshots.run(stream, [{ id: 'a', n: 2 }]);
    expect(task.difference).toMatchObject({ updated: 1, unchanged: 0 });
  });

  test('leaves the copy of a key that was read last', async () => {
    const stream = newStream();
    const { task, duplicates } = await snapshots.run(
      stream,
      [
        { id: 'a', n: 1 },
        { id: 'b', n: 1 },
        { id: 'a', n: 2 },
      ],
      { rowsInPart: 2 },
    );
    expect({ rows: task.rows, duplicates }).toEqual({ rows: 2, duplicates: 1 });
    expect(await snapshots.rows(stream)).toEqual([
      { id: 'a', n: 2 },
      { id: 'b', n: 1 },
    ]);
  });

  test('takes no row of another part for the copy that is left out', async () => {
    const stream = newStream();
    const row = (id: string, n: number) => ({ id, n });
    await snapshots.run(stream, [row('a', 1), row('b', 1), row('c', 1), row('d', 1), row('e', 1)]);
    const read = [row('a', 1), row('b', 1), row('c', 1), row('a', 2), row('d', 1), row('e', 1)];
    const { task, duplicates } = await snapshots.run(stream, read, { rowsInPart: 2 });
    expect(duplicates).toBe(1);
    expect(task.difference).toMatchObject({ inserted: 0, updated: 1, deleted: 0, unchanged: 4 });
    const again = await snapshots.run(stream, read, { rowsInPart: 2 });
    expect(again.task.difference).toMatchObject({ updated: 0, deleted: 0, unchanged: 5 });
  });

  test('distinguishes rows of a key of several columns', async () => {
    const stream = newStream();
    const key = ['id', 'segment'];
    const row = (id: string, segment: string, n: number) => ({ id, segment, n });
    await snapshots.run(stream, [row('a', 'x', 1), row('a', 'y', 1)], { key });
    const { task } = await snapshots.run(stream, [row('a', 'x', 2), row('b', 'y', 1)], { key });
    expect(task.difference).toMatchObject({ inserted: 1, updated: 1, deleted: 1, unchanged: 0 });
  });
});

describe('the stored hashes', () => {
  const column = (text: string): StoredColumn => ({
    place: 'attribute',
    field: 'n',
    name: 'n',
    shape: { k: Kind.string },
    text,
  });
  const comparable = (before: string, now: string) =>
    hashesComparable({
      previous: { hash_version: 'v', columns: [column(before)] } as unknown as StreamState,
      columns: [column(now)],
      hashVersion: 'v',
    });

  test.each([
    // The empty texts of a column of numbers were stored as NULL, and are no text again.
    ['BIGINT|e', 'VARCHAR', false],
    ['VARCHAR', 'BIGINT|e', false],
    ['BIGINT', 'VARCHAR', true],
    ['VARCHAR', 'BIGINT', true],
    ['BIGINT|e', 'BIGINT|e', true],
    ['BIGINT', 'BIGINT|e', true],
  ])('of texts with the format %s are those of texts with the format %s: %s', (before, now, are) => {
    expect(comparable(before, now)).toBe(are);
  });
});

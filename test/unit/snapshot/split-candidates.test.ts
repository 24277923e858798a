import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Kind } from '../../../src/columns/column-shape.js';
import type { StoredColumn } from '../../../src/columns/columns.js';
import { quoteIdentifier, sqlText } from '../../../src/core/sql.js';
import { splitCandidates } from '../../../src/snapshot/split-candidates.js';
import type { StreamState } from '../../../src/snapshot/stream-state.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';

type Text = string | null;

let database: Database;
let session: Session;
beforeAll(async () => {
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
  await session.run(`ATTACH ':memory:' AS store`);
});
afterAll(() => {
  session.close();
  database.close();
});

function column(field: string, properties: Partial<StoredColumn> = {}): StoredColumn {
  return { place: 'attribute', field, name: field, shape: { k: Kind.string }, ...properties };
}

/** A snapshot with these columns of text. */
async function snapshot(
  columns: Readonly<Record<string, readonly Text[]>>,
  properties: Readonly<Record<string, Partial<StoredColumn>>> = {},
): Promise<StreamState> {
  const names = Object.keys(columns);
  const rows = columns[names[0] as string]?.length ?? 0;
  const lines = Array.from({ length: rows }, (_, row) => {
    const values = names.map((name) => columns[name]?.[row] ?? null);
    return `(${values.map((value) => (value === null ? 'NULL' : sqlText(value))).join(', ')})`;
  });
  const types = names.map((name) => `${quoteIdentifier(name)} VARCHAR`).join(', ');
  await session.run(`CREATE OR REPLACE TABLE store.members (${types})`);
  if (rows > 0) await session.run(`INSERT INTO store.members VALUES ${lines.join(', ')}`);
  const stored = names.map((name) => column(name, properties[name]));
  return { stream: 'members', rows, columns: stored } as unknown as StreamState;
}

const nothingHidden = () => false;

function cycle(length: number, values: readonly Text[]): Text[] {
  return Array.from({ length }, (_, index) => values[index % values.length] ?? null);
}

describe('the ways to split a list', () => {
  it('are its attributes with few values and no null, the largest part first, and pairs of them', async () => {
    const state = await snapshot({
      country: cycle(120, ['DE', 'US', 'US', 'FR']),
      tier: cycle(120, ['gold', 'silver', 'gold']),
      gap: cycle(120, ['a', null]),
    });
    const found = await splitCandidates(session, state, nothingHidden);
    expect(found.map(({ attributes }) => attributes)).toContainEqual(['country']);
    expect(found.find(({ attributes }) => attributes[0] === 'country')?.parts).toEqual([
      { values: [['country', 'US']], rows: 60 },
      { values: [['country', 'DE']], rows: 30 },
      { values: [['country', 'FR']], rows: 30 },
    ]);
    const pair = found.find(({ attributes }) => attributes.length === 2);
    expect([...(pair?.attributes ?? [])].sort()).toEqual(['country', 'tier']);
    expect(pair?.parts).toHaveLength(6);
    expect(found.flatMap(({ attributes }) => attributes)).not.toContain('gap');
  });

  it('leave out columns that are hidden, under a rule, untracked, not text, not attributes, or not filterable', async () => {
    const good = cycle(60, ['a', 'b', 'c']);
    const names = ['hidden', 'hashed', 'untracked', 'cast', 'number', 'envelope', 'case', 'empty', 'good'];
    const columns = Object.fromEntries(names.map((name) => [name, good]));
    const state = await snapshot(
      { ...columns, case: cycle(60, ['de', 'DE']), empty: cycle(60, ['x', '']) },
      {
        hashed: { rule: { hash: { salt: 's' } } },
        untracked: { untracked: true },
        cast: { declared: 'VARCHAR' },
        number: { shape: { k: Kind.string | Kind.safeInteger } },
        envelope: { place: 'envelope' },
      },
    );
    const found = await splitCandidates(session, state, (field) => field === 'hidden');
    expect(found.map(({ attributes }) => attributes)).toEqual([['good']]);
  });

  it('never use a column with a null, and have each row in exactly one part', async () => {
    const value = fc.constantFrom<Text>('a', 'b', 'B', 'c c', 'd/e', '"', '東', null);
    const rows = fc.array(fc.tuple(value, value, value), { minLength: 1, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(rows, async (all) => {
        const columns = { x: all.map(([x]) => x), y: all.map(([, y]) => y), z: all.map(([, , z]) => z) };
        const state = await snapshot(columns);
        for (const { attributes, parts } of await splitCandidates(session, state, nothingHidden)) {
          for (const name of attributes) expect(columns[name as 'x']).not.toContain(null);
          let counted = 0;
          for (const [index] of all.entries()) {
            const owners = parts.filter(({ values }) =>
              values.every(([name, wanted]) => columns[name as 'x'][index] === wanted),
            );
            expect(owners).toHaveLength(1);
            counted += 1;
          }
          expect(parts.reduce((sum, part) => sum + part.rows, 0)).toBe(counted);
          expect(parts.map((part) => part.rows)).toEqual(parts.map((part) => part.rows).sort((a, b) => b - a));
        }
      }),
      { numRuns: 40 },
    );
  });
});

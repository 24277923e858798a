import { describe, expect, it } from 'vitest';
import { differences } from './compare.js';
import { column, delivered, ownless, people, undelivered } from './rows.js';
import type { Workbench } from './suite.js';

/** Tests of new columns, and of columns that change their type. */
export function schema(bench: Workbench): void {
  const typed = (value: string, to = 5) => `SELECT 'p' || i AS id, ${value} AS value FROM range(${to}) t(i)`;

  it('adds a column that is new', async () => {
    const subject = await bench.loaded(people(0, 10));
    delivered(await subject.run(`SELECT *, 'x' || id AS note FROM (${people(0, 10)})`));
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
  });

  it('keeps a column that the stream no longer has, empty in changed rows', async () => {
    const subject = await bench.loaded(people(0, 10));
    delivered(await subject.run(`SELECT * EXCLUDE (score) FROM (${people(0, 10, "'changed'")})`));
    const rows = await subject.place.rows('people');
    if (bench.hasMode('mirror')) expect(column(rows, 'score')).toEqual(Array(10).fill(null));
    expect(differences(await subject.published(), ownless(rows))).toEqual([]);
  });

  it('widens the type of a number', async () => {
    const subject = await bench.loaded(typed('i'));
    delivered(await subject.run(typed('i + 0.5::DOUBLE')));
    expect(differences(await subject.published(), widest(await subject.place.rows('people')))).toEqual([]);
  });

  it('gives any type to a column that had no value', async () => {
    const subject = await bench.loaded(typed('NULL'));
    delivered(await subject.run(typed('[i]')));
    expect(differences(await subject.published(), widest(await subject.place.rows('people')))).toEqual([]);
  });

  describe('a type that the column cannot become', () => {
    // Some connectors can widen to any type; this one widens nothing.
    const rigid = () => ({ ...bench.connector, widens: () => false });

    it('goes into a column beside it, with all values, and the old one keeps those that fit', async () => {
      const subject = await bench.loaded(typed('i'), { connector: rigid() });
      const mixed = "CASE WHEN i = 2 THEN 'two' ELSE i::VARCHAR END";
      const report = delivered(await subject.run(typed(mixed)));
      expect(report.error).toBeNull();
      const rows = await subject.place.rows('people');
      const variant = [...(rows[0]?.keys() ?? [])].find((name) => name.startsWith('value__')) ?? '';
      expect(column(rows, variant)).toEqual(['0', '1', '3', '4', 'two']);
      expect(column(rows, 'value')).toEqual(['0', '1', '3', '4', null]);
      delivered(await subject.run(typed(mixed, 7)));
      expect(column(await subject.place.rows('people'), variant)).toEqual(['0', '1', '3', '4', '5', '6', 'two']);
    });

    it('fails the stream if the job says so, and leaves the table as it was', async () => {
      const subject = await bench.loaded(typed('i'), { connector: rigid(), destination: { on_type_change: 'fail' } });
      const { status, code, message } = undelivered(await subject.run(typed("'text'")));
      expect([status, code]).toEqual(['failed', 'type_changed']);
      expect(message).toContain('"value"');
      expect(column(await subject.place.rows('people'), 'value')).toEqual(['0', '1', '2', '3', '4']);
    });
  });

  it('refuses a table of another stream; takes it over on request', async () => {
    const subject = await bench.loaded(people(0, 3));
    const other = await bench.subject({ place: subject.place, destination: { name: 'other' } });
    const { status, code } = undelivered(await other.run(people(0, 4)));
    expect([status, code]).toEqual(['failed', 'table_taken']);
    delivered(await other.push({ adopt: true }));
    expect(column(await other.place.rows('people'), 'id')).toEqual(['p0', 'p1', 'p2', 'p3']);
    // The other destination has lost it.
    expect(undelivered(await subject.run(people(0, 5))).code).toBe('table_taken');
  });
}

/** The rows, with the values of `value` taken from the variant column beside it, if there is one. */
function widest(rows: readonly ReadonlyMap<string, string | null>[]): ReadonlyMap<string, string | null>[] {
  return ownless(rows).map((row) => {
    const variant = [...row.keys()].find((name) => name.startsWith('value__'));
    if (variant === undefined) return row;
    return new Map([...row].filter(([name]) => name !== variant).concat([['value', row.get(variant) ?? null]]));
  });
}

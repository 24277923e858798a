import { describe, expect, it } from 'vitest';
import { quoteIdentifier } from '../core/sql.js';
import { differences } from './compare.js';
import { column, delivered, ownless, people, undelivered } from './rows.js';
import type { Workbench } from './suite.js';

const longDecimal = ['DECIMAL(38,10)', '1234567890123456789012345678.0123456789'] as const;
const leaves: readonly (readonly [type: string, value: string])[] = [
  ['BOOLEAN', 'true'],
  ['TINYINT', '-7'],
  ['UINTEGER', '4294967295'],
  ['BIGINT', '9007199254740993'],
  ['UBIGINT', '18446744073709551615'],
  ['DECIMAL(4,1)', '-999.9'],
  ['DECIMAL(12,6)', '123456.000001'],
  longDecimal,
  ['DOUBLE', '0.1'],
  ['VARCHAR', "'é'"],
  ['JSON', `'{"a":[1]}'`],
  ['DATE', "'2024-02-29'"],
  ['TIMESTAMP', "'2026-01-01 00:00:00.000001'"],
  ['TIMESTAMP WITH TIME ZONE', "'2026-01-01 00:00:00.000001+00'"],
];
const memberNames = ['a', 'B', 'with space', 'Größe', 'select', '1st', 'say "x"', 'comma, and (', "it's"];

/** A type of any depth, and a value of it as SQL, as a number decides. */
function anyType(choice: number, depth = 0): readonly [type: string, value: string] {
  const next = (choice * 48_271) % 2_147_483_647;
  const kind = depth > 3 ? 0 : next % 3;
  if (kind === 0) return leaves[(next >> 3) % leaves.length] as (typeof leaves)[number];
  if (kind === 1) {
    const [type, value] = anyType(next, depth + 1);
    return [`${type}[]`, `[${value}::${type}, NULL]`];
  }
  const members = Array.from({ length: 1 + ((next >> 3) % 3) }, (_, place) => {
    const name = memberNames[((next >> 5) + place * 2) % memberNames.length] as string;
    return { name, of: anyType(next + place + 1, depth + 1) };
  });
  return [
    `STRUCT(${members.map(({ name, of }) => `${quoteIdentifier(name)} ${of[0]}`).join(', ')})`,
    `{${members.map(({ name, of }) => `${quoteIdentifier(name)}: ${of[1]}::${of[0]}`).join(', ')}}`,
  ];
}

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

  it.each([1, 2])('knows each column that it made again, whatever its type: types %i', async (shape) => {
    const all = Array.from({ length: 16 }, (_, number) => anyType(shape * 1_000_003 + number * 7919));
    const { keepsLongJsonNumbers = true } = bench.harness;
    const types = all.filter(([type]) => keepsLongJsonNumbers || !type.includes(longDecimal[0]));
    const row = (id: string, isEmpty = false) => {
      const values = types.map(
        ([type, value], number) => `${isEmpty ? 'NULL' : `(${value})`}::${type} AS "c${number}"`,
      );
      return `SELECT '${id}' AS id, ${values.join(', ')}`;
    };
    const first = `${row('p1')} UNION ALL ${row('p2', true)}`;
    const subject = await bench.loaded(first);
    const columns = async () => [...((await subject.place.rows('people'))[0]?.keys() ?? [])].sort();
    const made = await columns();
    expect(delivered(await subject.run(`${first} UNION ALL ${row('p3')}`)).error).toBeNull();
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
    const other = await bench.subject({ place: subject.place, destination: { name: 'other' } });
    undelivered(await other.run(`${first} UNION ALL ${row('p3')} UNION ALL ${row('p4', true)}`));
    expect(delivered(await other.push({ adopt: true })).error).toBeNull();
    expect(await columns()).toEqual(made);
    expect(differences(await other.published(), ownless(await other.place.rows('people')))).toEqual([]);
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

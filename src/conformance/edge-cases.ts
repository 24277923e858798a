import { describe, expect, it } from 'vitest';
import { tableName } from '../config/destination-config.js';
import type { DestinationReport, JobReport } from '../core/run-report.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { TargetNames } from '../delivery/target-names.js';
import { differences } from './compare.js';
import type { ComparedRow } from './harness.js';
import { column, delivered, ownless } from './rows.js';
import type { Workbench } from './suite.js';
import type { TestTarget } from './test-target.js';

/** Values as SQL that some destination cannot hold, by the type of their column. */
const difficultValues: Record<string, readonly string[]> = {
  VARCHAR: [
    'chr(0)',
    "'before' || chr(0) || 'after'",
    "chr(65279) || 'mark'",
    'chr(65535)',
    'chr(1114111)',
    "'=HYPERLINK(1)'",
    "'''-1+1'",
    "repeat('x', 3000000)",
    "'..'",
  ],
  JSON: [
    `'{"a":"\\u0000"}'`,
    `'{"\\u0000":1}'`,
    `'"\\\\u0000"'`,
    `'1e400'`,
    `'{"":{"":1}}'`,
    ...[32, 33, 100, 101, 900].map((depth) => `repeat('[', ${depth}) || repeat(']', ${depth})`),
    `repeat('{"a":', 40) || '1' || repeat('}', 40)`,
    `'"' || repeat('[', 200) || '"'`,
    `'["' || repeat('\\"[', 50) || '"]'`,
  ],
  DATE: [
    "'0001-01-01'",
    "'0000-12-31'",
    "'9999-12-31'",
    "'10000-01-01'",
    "'5000000-01-01'",
    "'infinity'",
    "'-infinity'",
  ],
  TIMESTAMPTZ: [
    "'0001-01-01 00:00:00+00'",
    "'0000-12-31 23:59:59.999999+00'",
    "'1000-06-01 00:00:00+00'",
    "'9999-12-31 23:59:59.999999+00'",
    "'10000-01-01 00:00:00+00'",
    "'290000-01-01 00:00:00+00'",
    "'infinity'",
    "'-infinity'",
  ],
  DOUBLE: ["'inf'", "'-inf'", "'nan'", '2.2250738585072014e-308'],
  'DECIMAL(18,18)': ["'0.5'", "'-0.25'"],
};

/**
 * Values whose text in a destination may be another: only that they are there, or set aside, is compared. A byte order mark is
 * lost by the client that reads the published files here.
 */
const looselyCompared = /infinity|inf'|nan|1e400|1e200000|'1?0000-|000000-|290000-|65279/;

const difficultKeys = [
  "'plain'",
  "''",
  "' '",
  "'a'",
  "'A'",
  "'a '",
  "'ä'",
  "'a' || chr(776)",
  "'tab' || chr(9)",
  "'nul' || chr(0)",
  "'..'",
  ...[500, 800, 2000, 2650, 2800, 4000, 70000].map((length) => `string_agg_of(${length})`),
  "repeat('é', 700)",
  "repeat('😀', 767)",
];

/** A text of this many bytes that cannot be compressed. */
function incompressible(length: number): string {
  return `(SELECT left(string_agg(md5('${length}' || i), '' ORDER BY i), ${length}) FROM range(${Math.ceil(length / 32)}) t(i))`;
}

function keySql(text: string): string {
  const length = /^string_agg_of\((\d+)\)$/.exec(text)?.[1];
  return length === undefined ? text : incompressible(Number(length));
}

const difficultNames = [
  'ends in a space ',
  'ends in a line break\n',
  'ends in a tab\t',
  ' begins with a space',
  ' ',
  '\n',
  '.',
  '..',
  '../../x',
  '/',
  `${'x'.repeat(62)} `,
  'é'.repeat(60),
  '😀'.repeat(30),
  '=1+1',
  '@x',
  "it's",
  '\u00a0',
  '\u200b',
  '\u202e',
  '%00',
  'NUL',
  '__cdsync',
];

const difficultTables = difficultNames.filter((name) => /[ \n\t]$|^\.|^\/|^ |=|'|é/.test(name) && name.trim() !== '');

const difficultFolders = [
  'chr(0)',
  "'a' || chr(0)",
  "repeat('x', 300)",
  "repeat('x', 240)",
  "repeat('/', 100)",
  "repeat('é', 200)",
  "'.'",
  "'..'",
  "'../../..'",
  "'/etc'",
  "''",
  "' '",
  "'a '",
  "'a.'",
  "'__HIVE_DEFAULT_PARTITION__'",
  "'line' || chr(10) || 'feed'",
  "'%2e%2e'",
  "'it''s'",
  "'\\'",
  'chr(65279)',
  'NULL',
  "'plain'",
];

/** The report of the one destination. @throws unless its delivery took the rows, or set some aside */
function taken(report: JobReport): DestinationReport {
  const [target] = report.destinations;
  if (target?.status === 'partial' && target.error?.code === 'values_refused') return target;
  return delivered(report);
}

/** Every published value is there as it is, or it is NULL and listed, with a reason that quotes no value. Of a key, the row is left out. */
async function expectTakenOrListed(subject: TestTarget, report: JobReport, loose: RegExp, table = 'people') {
  const { refused } = taken(report);
  const rejects = await subject.rejects();
  expect(refused).toBe(rejects.length);
  for (const { reason } of rejects) expect(reason).toMatch(/^[\x20-\x7e]{5,120}$/);
  const isKey = ({ column: name }: (typeof rejects)[number]) => name === 'id' || name === 'part';
  const absent = new Set(rejects.filter(isKey).map(({ key }) => key));
  const empty = new Set(rejects.filter((reject) => !isKey(reject)).map(({ key, column: name }) => `${key} ${name}`));
  const published = await subject.published();
  const expected = published
    .filter((row) => !absent.has(subject.keyOf(row)))
    .map(
      (row) =>
        new Map([...row].map(([name, value]) => [name, empty.has(`${subject.keyOf(row)} ${name}`) ? null : value])),
    );
  const actualRows = ownless(await subject.place.rows(table));
  expect(column(actualRows, 'id')).toEqual(column(expected, 'id'));
  const strict = (rows: readonly ComparedRow[]) => rows.filter((row) => !loose.test(String(row.get('sql'))));
  expect(differences(strict(expected), strict(actualRows))).toEqual([]);
}

/**
 * Tests of what some destination cannot hold. One value never stops a table: each is stored as it is, or listed; a name is taken, or
 * replaced.
 */
export function edgeCases(bench: Workbench): void {
  describe('what some destination cannot hold', () => {
    it.each(Object.entries(difficultValues))(
      'is stored, or NULL and listed with column and reason: %s',
      async (type, texts) => {
        const subject = await bench.subject();
        const rows = ['NULL', ...texts].map(
          (text, index) => `SELECT 'p${index}' AS id, ${sqlText(text)} AS sql, (${text})::${type} AS value`,
        );
        const all = rows.join(' UNION ALL ');
        await expectTakenOrListed(subject, await subject.run(all), looselyCompared);
        for (const reject of await subject.rejects()) expect(reject.column).toBe('value');
        // A change of another row, and the merge that follows.
        const changed = `${all} UNION ALL SELECT 'p99', 'NULL', NULL`;
        await expectTakenOrListed(subject, await subject.run(changed), looselyCompared);
      },
    );

    it('is found where it is: after a row with line breaks, in a column of any name', async () => {
      const subject = await bench.subject();
      const name = new TargetNames(bench.connector.capabilities.identifiers).give("it's: a, column");
      const values = ["'{}'", "'1e200000'", `repeat('[', 40) || repeat(']', 40)`, "'[]'"];
      const rows = values.map(
        (
          value,
          index,
        ) => `SELECT 'p${index}' AS id, ${sqlText(value)} AS sql, repeat('two' || chr(10) || 'lines' || chr(13), ${4 - index}) AS text,
          (${value})::JSON AS ${quoteIdentifier(name)}`,
      );
      await expectTakenOrListed(subject, await subject.run(rows.join(' UNION ALL ')), looselyCompared);
      for (const reject of await subject.rejects()) expect(reject.column).toBe(name);
    });

    it.runIf(bench.keyed)('is stored, or left out and listed: keys of any text and length', async () => {
      const subject = await bench.subject({ key: ['id', 'part'], destination: { mode: bench.keyed } });
      const one = difficultKeys.map((key, index) => `SELECT (${keySql(key)}) AS id, 'x' AS part, ${index} AS visits`);
      const both = [1000, 1400, 2000].map(
        (length) => `SELECT ${incompressible(length)} AS id, ${incompressible(length)} AS part, 1 AS visits`,
      );
      const first = [...one, ...both].join(' UNION ALL ');
      for (const rows of [first, `${first} UNION ALL SELECT 'last', 'x', 1`]) {
        taken(await subject.run(rows));
        const aside = new Set((await subject.rejects()).map(({ key }) => key));
        const published = await subject.published();
        const expected = published.filter((row) => !aside.has(JSON.stringify([row.get('id'), row.get('part')])));
        expect(differences(expected, ownless(await subject.place.rows('people')), ['id', 'part'])).toEqual([]);
        expect(aside.size).toBeLessThan(difficultKeys.length);
      }
    });

    it('is replaced: names of columns', async () => {
      const subject = await bench.subject();
      const selected = difficultNames.map((name, index) => `'value ${index}' AS ${quoteIdentifier(name)}`);
      const rows = `SELECT 'p1' AS id, ${selected.join(', ')}`;
      for (const query of [rows, rows.replaceAll('value', 'other')]) {
        delivered(await subject.run(query));
        const [expected, actualRows] = [await subject.published(), ownless(await subject.place.rows('people'))];
        expect([...(actualRows[0]?.values() ?? [])].sort()).toEqual([...(expected[0]?.values() ?? [])].sort());
      }
    });

    it.each(difficultTables)('is replaced: a table named %j', async (name) => {
      const subject = await bench.subject({ destination: { table: name } });
      const table = new TargetNames(bench.connector.capabilities.identifiers).give(tableName(name, 'job', 'people'));
      delivered(await subject.run("SELECT 'p1' AS id, 'first' AS name"));
      expect(column(await subject.place.rows(table), 'name')).toEqual(['first']);
      expect(delivered(await subject.push()).rows).toBe(0);
    });

    it
      .runIf('partition_by' in bench.connector.options)
      .each(['append', 'mirror', 'replace'].filter((mode) => bench.hasMode(mode as 'append')))(
      'is set aside: a value that cannot be the name of a folder, in mode %s',
      async (mode) => {
        const subject = await bench.subject({ destination: { mode, partition_by: ['value'] } });
        const rows = difficultFolders.map(
          (text, index) => `SELECT 'p${index}' AS id, ${sqlText(text)} AS sql, ${text} AS value`,
        );
        const all = rows.join(' UNION ALL ');
        await expectTakenOrListed(subject, await subject.run(all), /^$/);
        for (const reject of await subject.rejects()) expect(reject.column).toBe('value');
        if (mode === 'append') return;
        await expectTakenOrListed(subject, await subject.run(`${all} UNION ALL SELECT 'p99', '', 'new'`), /^$/);
      },
    );
  });
}

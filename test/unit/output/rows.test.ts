import { DuckDBInstance, INTEGER, VARCHAR } from '@duckdb/node-api';
import { describe, expect, it, test } from 'vitest';
import { differenceCsv } from '../../../src/output/difference.js';
import type { CsvFormulas, RowFormat } from '../../../src/output/row-formats.js';
import { printRows } from '../../../src/output/rows.js';
import { fitColumns, textWidth } from '../../../src/output/table.js';
import { StreamedResult } from '../../../src/sdk/duckdb/streamed-result.js';

async function printed(
  sql: string,
  format: Exclude<RowFormat, 'arrow'>,
  { csvFormulas = 'escape', width }: { csvFormulas?: CsvFormulas; width?: number } = {},
): Promise<string> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    let text = '';
    const result = await StreamedResult.begin(connection, sql);
    const { names, types } = result;
    async function* chunks() {
      for await (const chunk of result.chunks()) yield chunk.getRows();
    }
    await printRows({ names, types, chunks }, { format, csvFormulas, width }, async (more) => {
      text += more;
    });
    return text;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const rows = `select '=1+1' as "@name", -1.5 as n, '+49 30' as phone union all select 'a, "b"', -2, '-7'`;

test('CSV escapes text that a spreadsheet program would run, in names too, and leaves numbers', async () => {
  expect(await printed(rows, 'csv')).toBe(`'@name,n,phone\n'=1+1,-1.5,'+49 30\n"a, ""b""",-2.0,-7\n`);
});

test('CSV keeps such text if that is asked for, and other formats always do', async () => {
  expect(await printed(rows, 'csv', { csvFormulas: 'keep' })).toBe(
    `@name,n,phone\n=1+1,-1.5,+49 30\n"a, ""b""",-2.0,-7\n`,
  );
  expect(JSON.parse(await printed(rows, 'json'))[0]).toMatchObject({ '@name': '=1+1', phone: '+49 30' });
});

test('CSV of a difference escapes keys that a spreadsheet program would run', () => {
  const difference = {
    stream: 'members',
    from: 'a',
    to: 'b',
    inserted: 1,
    updated: 0,
    deleted: 0,
    columns: {},
    rows: [{ op: 'insert' as const, key: '=cmd()', columns: [] }],
    schema_changes: [],
  };
  expect(differenceCsv(difference)).toEqual(['op,key,columns', "insert,'=cmd(),"]);
});

/** Each type, how it reads in a cell, and as JSON. */
const values: readonly (readonly [string, string, unknown])[] = [
  ['true', 'true', true],
  ["'02134'", '02134', '02134'],
  ['42::TINYINT', '42', 42],
  ['9007199254740991::BIGINT', '9007199254740991', 9007199254740991],
  ['9007199254740993::BIGINT', '9007199254740993', '9007199254740993'],
  ['7::HUGEINT', '7', 7],
  [
    '170141183460469231731687303715884105727::HUGEINT',
    '170141183460469231731687303715884105727',
    '170141183460469231731687303715884105727',
  ],
  ['0.1::FLOAT', '0.1', 0.1],
  ['-0.0::DOUBLE', '-0.0', 0],
  ["'nan'::DOUBLE", 'NaN', 'NaN'],
  ['1.50::DECIMAL(5,2)', '1.50', '1.50'],
  ["'2024-02-29'::DATE", '2024-02-29', '2024-02-29'],
  ["'12:30:00'::TIME", '12:30:00', '12:30:00'],
  ["'12:30:00+02'::TIMETZ", '12:30:00+02', '12:30:00+02'],
  ["'2024-07-01 12:00:00.5'::TIMESTAMP", '2024-07-01 12:00:00.5', '2024-07-01 12:00:00.5'],
  ["'2024-07-01 12:00:00+02'::TIMESTAMPTZ", '2024-07-01 10:00:00+00', '2024-07-01 10:00:00+00'],
  ["'infinity'::TIMESTAMPTZ", 'infinity', 'infinity'],
  ['INTERVAL 1 MONTH + INTERVAL 26 HOUR', '1 month 26:00:00', '1 month 26:00:00'],
  ["'\\xAB'::BLOB", '\\xAB', '\\xAB'],
  ["'0101'::BIT", '0101', '0101'],
  [
    "'00000000-0000-0000-0000-000000000001'::UUID",
    '00000000-0000-0000-0000-000000000001',
    '00000000-0000-0000-0000-000000000001',
  ],
  ["'gold'::ENUM('gold', 'silver')", 'gold', 'gold'],
  ['[1, NULL]', '[1,null]', [1, null]],
  ['[1, 2]::INTEGER[2]', '[1,2]', [1, 2]],
  ["{'since': INTERVAL 2 DAY, 'n': 5::BIGINT}", '{"since":"2 days","n":5}', { since: '2 days', n: 5 }],
  ["MAP {'a': [DATE '2024-02-29']}", '{"a":["2024-02-29"]}', { a: ['2024-02-29'] }],
  ['union_value(n := 5)', '5', { n: 5 }],
  ['[union_value(n := 5)]', '[{"n":5}]', [{ n: 5 }]],
  ['NULL', '', null],
];

test.each(values)('%s is shown as %s', async (sql, cell, json) => {
  const query = `select ${sql} as v`;
  expect((await printed(query, 'table')).split('\n')[1]?.trim()).toBe(cell);
  expect(
    (await printed(query, 'csv', { csvFormulas: 'keep' }))
      .slice(2)
      .trim()
      .replace(/^"(.*)"$/, '$1')
      .replaceAll('""', '"'),
  ).toBe(cell);
  expect(JSON.parse(await printed(query, 'json'))).toEqual([{ v: json }]);
});

test('Markdown has a row for each row, right-aligned numbers, and nothing that Markdown would take for more than text', async () => {
  const sql = `select 'a|b' || chr(10) || '*c*' as "x|y", 1.5 as n union all select NULL, 2`;
  expect(await printed(sql, 'markdown')).toBe(
    '| x\\|y | n |\n| --- | ---: |\n| a\\|b<br>\\*c\\* | 1.5 |\n|  | 2.0 |\n',
  );
});

const wide = `select ${Array.from({ length: 30 }, (_, n) => `'${'value'.repeat(4)}' as column_${n}`).join(', ')}`;

test('a table on a terminal is no wider than the terminal, and names the parts left out', async () => {
  for (const width of [20, 40, 80, 132]) {
    const lines = (await printed(wide, 'table', { width })).trimEnd().split('\n');
    for (const line of lines.slice(0, 2)) expect(textWidth(line)).toBeLessThanOrEqual(width);
    expect(lines.at(-1)).toMatch(/^\(1 row; \d+ of 30 columns fit here(, \d+ values? cut)?: --format csv has all\)$/);
    expect(lines[0]).toContain('column_0');
  }
  const [titles, row, count] = (
    await printed(`select '${'é日本'.repeat(20)}' as a, 1 as b`, 'table', { width: 40 })
  ).split('\n');
  expect([textWidth(row ?? '') <= 40, row?.includes('…'), titles?.includes('b'), count]).toEqual([
    true,
    true,
    true,
    '(1 row; 1 value cut: --format csv has all)',
  ]);
});

test('a table for a file or a program is never cut', async () => {
  const text = await printed(wide, 'table');
  expect(text).not.toContain('…');
  expect(text.split('\n')[0]).toContain('column_29');
});

test('columns that fit keep their width; of others the widest give way first', () => {
  expect(fitColumns([5, 5], 20)).toEqual({ shown: [0, 1], widths: [5, 5] });
  expect(fitColumns([5, 100, 30], 60)).toEqual({ shown: [0, 1, 2], widths: [5, 26, 25] });
  expect(fitColumns([100], 30)).toEqual({ shown: [0], widths: [30] });
});

describe('a table with one long value among many rows', () => {
  const sql = "select i, if(i = 7, repeat('x', 300000), 'y') as note, i + 1 as next from range(2000) as r(i)";

  it('has it whole in a file, and no other line is longer for it', async () => {
    const lines = (await printed(sql, 'table')).split('\n');
    expect(lines[8]).toBe(`   7  ${'x'.repeat(300_000)}     8`);
    expect(Math.max(...lines.filter((_, at) => at !== 8).map(({ length }) => length))).toBeLessThan(220);
  });

  it('is cut on a terminal, and says so', async () => {
    const text = await printed(sql, 'table', { width: 60 });
    expect(Math.max(...text.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(60);
    expect(text).toMatch(/\(2000 rows; 1 value cut: --format csv has all\)\n$/);
  });

  it('is whole in CSV and JSON', async () => {
    for (const format of ['csv', 'json'] as const)
      expect(await printed(sql, format, { width: 60 })).toContain('x'.repeat(300_000));
  });
});

describe('a table of many large rows', () => {
  const columns = { names: ['n', 'text'], types: [INTEGER, VARCHAR] };
  const megabyte = 1_000_000;
  const [rows, letters] = [60, megabyte];

  /** The printed lines, and how many characters of rows were waiting at most. */
  async function printedLines(width?: number): Promise<{ lines: string[]; waiting: number }> {
    let text = '';
    let made = 0;
    let waiting = 0;
    async function* chunks() {
      for (let at = 0; at < rows; at += 1) {
        made += letters;
        yield [[at, `${at} `.padEnd(letters, 'x')]];
        waiting = Math.max(waiting, made - text.length);
      }
    }
    await printRows({ ...columns, chunks }, { format: 'table', csvFormulas: 'escape', width }, async (more) => {
      text += more;
    });
    return { lines: text.split('\n'), waiting };
  }

  it('is printed while its rows arrive, each row whole and at its place', async () => {
    const { lines, waiting } = await printedLines();
    expect(waiting).toBeLessThan(15 * megabyte);
    expect(lines).toHaveLength(rows + 3);
    for (let at = 0; at < rows; at += 1)
      expect(lines[at + 1] === `${at}  ${`${at} `.padEnd(letters, 'x')}`, `row ${at}`).toBe(true);
    expect(lines.slice(-2)).toEqual([`(${rows} rows)`, '']);
  });

  it('fits a terminal, with the numbers of the last rows, and counts each value that is cut', async () => {
    const { lines } = await printedLines(40);
    expect(lines.slice(1, -2).map((line) => line.length)).toEqual(Array.from({ length: rows }, () => 40));
    expect(lines.at(-3)?.slice(0, 6)).toBe('59  59');
    expect(lines.at(-2)).toBe(`(${rows} rows; ${rows} values cut: --format csv has all)`);
  });
});

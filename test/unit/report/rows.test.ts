import { DuckDBInstance } from '@duckdb/node-api';
import { expect, test } from 'vitest';
import type { CsvFormulas } from '../../../src/report/csv.js';
import { differenceCsv } from '../../../src/report/difference.js';
import { printRows, type RowFormat } from '../../../src/report/rows.js';

async function printed(sql: string, format: RowFormat, csvFormulas: CsvFormulas = 'escape'): Promise<string> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    let text = '';
    await printRows(await connection.stream(sql), format, csvFormulas, async (more) => {
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
  expect(await printed(rows, 'csv', 'keep')).toBe(`@name,n,phone\n=1+1,-1.5,+49 30\n"a, ""b""",-2.0,-7\n`);
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
  };
  expect(differenceCsv(difference)).toEqual(['op,key,columns', "insert,'=cmd(),"]);
});

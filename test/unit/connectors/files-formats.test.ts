import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readSql, writeSql } from '../../../connectors/files/formats.js';
import { Sql } from '../../fixtures/utc-duckdb.js';

let sql: Sql;
let folder = '';
beforeAll(async () => {
  sql = await Sql.open();
  folder = await mkdtemp(join(tmpdir(), 'cdsync-formats-'));
});
afterAll(async () => {
  sql.close();
  await rm(folder, { recursive: true });
});

const formats = ['parquet', 'csv', 'jsonl'] as const;
const digits = (maxLength: number) => fc.stringMatching(new RegExp(`^[1-9][0-9]{0,${maxLength - 1}}$`));
const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** The text of a decimal with a point before its last digits. */
const decimal = (precision: number, scale: number) =>
  fc.tuple(digits(precision), fc.constantFrom('', '-')).map(([all, sign]) => {
    const padded = all.padStart(scale + 1, '0');
    return `${sign}${padded.slice(0, padded.length - scale)}${scale === 0 ? '' : `.${padded.slice(-scale)}`}`;
  });
const texts = fc.oneof(
  fc.constantFrom('', '1.25', '"1.50', 'a,2.5]', '\\', '\\"1.5', 'line\nbreak', '\u0001', 'é😀', 'null', '{"x":1.10}'),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
);
const json = fc
  .oneof(
    decimal(30, 12),
    digits(45),
    fc.constantFrom('1E5', '-1.50e-10', '0.10', 'true'),
    texts.map((text) => JSON.stringify(text)),
  )
  .chain((leaf) => fc.constantFrom(leaf, `[${leaf},1.10]`, `{"p":${leaf},"q":[{},null]}`));

const sqlOf: Readonly<Record<string, fc.Arbitrary<string>>> = {
  'DECIMAL(18,8)': decimal(18, 8).map((text) => `${quoted(text)}::DECIMAL(18,8)`),
  'DECIMAL(18,2)': decimal(18, 2).map((text) => `${quoted(text)}::DECIMAL(18,2)`),
  'DECIMAL(38,20)': decimal(38, 20).map((text) => `${quoted(text)}::DECIMAL(38,20)`),
  'DECIMAL(38,38)': decimal(38, 38).map((text) => `${quoted(text)}::DECIMAL(38,38)`),
  'DECIMAL(12,4)': decimal(12, 4).map((text) => `${quoted(text)}::DECIMAL(12,4)`),
  HUGEINT: decimal(38, 0).map((text) => `${quoted(text)}::HUGEINT`),
  BIGINT: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => `'${n}'::BIGINT`),
  DOUBLE: fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => `'${Object.is(n, -0) ? '-0.0' : n}'::DOUBLE`),
  VARCHAR: texts.filter((text) => !text.includes('\0')).map(quoted),
  JSON: json.map((text) => `${quoted(text)}::JSON`),
  BOOLEAN: fc.constantFrom('true', 'false'),
  DATE: fc.constantFrom("DATE '2024-02-29'", "DATE '1582-10-04'"),
  'TIMESTAMP WITH TIME ZONE': fc.integer({ min: 0, max: 2 ** 40 }).map((n) => `make_timestamptz(${n}000123)`),
};
const types = Object.keys(sqlOf);

/** A type, perhaps with parts, and SQL of values of it. */
const column = fc
  .record({ type: fc.constantFrom(...types), shape: fc.constantFrom('plain', 'list', 'struct', 'both') })
  .chain(({ type, shape }) => {
    const value = sqlOf[type] as fc.Arbitrary<string>;
    const made = {
      plain: { type, value },
      list: { type: `${type}[]`, value: value.map((text) => `[${text}, NULL]`) },
      struct: { type: `STRUCT("a b" ${type}, x DOUBLE)`, value: value.map((text) => `{'a b': ${text}, 'x': 0.1}`) },
      both: { type: `STRUCT("a b" ${type})[]`, value: value.map((text) => `[{'a b': ${text}}, NULL]`) },
    }[shape] as { type: string; value: fc.Arbitrary<string> };
    const values = fc.array(fc.oneof({ weight: 5, arbitrary: made.value }, fc.constant('NULL')), {
      minLength: 3,
      maxLength: 3,
    });
    return values.map((all) => ({ type: made.type, values: all.map((text) => `(${text})::${made.type}`) }));
  });

it.each(formats)('%s gives every value back, digit for digit, whatever its type', async (format) => {
  const layout = { format, partition_by: [], csv_formulas: undefined };
  await fc.assert(
    fc.asyncProperty(fc.array(column, { minLength: 1, maxLength: 4 }), async (columns) => {
      const named = [{ type: 'VARCHAR', values: ["'0'", "'1'", "'2'"] }, ...columns].map((each, index) => ({
        ...each,
        name: index === 0 ? 'id' : `c "${index}`,
      }));
      const rows = [0, 1, 2].map(
        (row) => `SELECT ${named.map(({ values, name }) => `${values[row]} AS "${name.replaceAll('"', '""')}"`)}`,
      );
      await sql.rows(`CREATE OR REPLACE TABLE rows AS ${rows.join(' UNION ALL ')}`);
      const path = join(folder, `rows.${format}`);
      await sql.rows(writeSql('rows', named, layout, path));
      const back = readSql({ files: [{ path }], layout, columns: named });
      const all = named
        .map(({ name }) => `"${name.replaceAll('"', '""')}"`)
        .map((name) => `${name}::VARCHAR AS ${name}`);
      const text = (from: string) => `SELECT ${all.join(', ')} FROM (${from}) ORDER BY id`;
      expect(await sql.rows(text(back))).toEqual(await sql.rows(text('FROM rows')));
    }),
    { numRuns: 60 },
  );
});

it('a JSON text with line breaks between its parts is one line of JSON lines', async () => {
  const layout = { format: 'jsonl' as const, partition_by: [], csv_formulas: undefined };
  const path = join(folder, 'broken.jsonl');
  const columns = [{ name: 'j', type: 'JSON' }];
  await sql.rows(writeSql(`(SELECT '{"p":\r\n 1.10,\n"q":"a\\nb"}'::JSON AS j)`, columns, layout, path));
  expect(await sql.rows(readSql({ files: [{ path }], layout, columns }))).toEqual([{ j: '{"p":1.10,"q":"a\\nb"}' }]);
});

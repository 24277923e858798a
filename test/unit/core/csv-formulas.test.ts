import '../../fixtures/property-seed.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { escapeCsvFormula, escapeCsvFormulaSql, unescapeCsvFormulaSql } from '../../../src/core/csv-formulas.js';
import { sqlText } from '../../../src/core/sql.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

const pieces = [
  "'",
  '=',
  '+',
  '-',
  '@',
  '\t',
  '\r',
  '\n',
  '＝',
  '＋',
  '－',
  '＠',
  '1',
  '.',
  'e5',
  'HYPERLINK("x")',
  'é',
  ' ',
];
const texts = fc.array(fc.constantFrom(...pieces), { maxLength: 6 }).map((parts) => parts.join(''));

describe('a text in CSV that a spreadsheet program would take for a formula', () => {
  it.each([
    '=1+1',
    '+cmd',
    '-cmd',
    '@SUM(A1)',
    '\t=1',
    '\r=1',
    '\n=1',
    '＝1',
    '＋1',
    '－1',
    '＠x',
    '-1+1',
    '+49 30',
    '-',
  ])('gets an apostrophe: %j', (text) => expect(escapeCsvFormula(text)).toBe(`'${text}`));

  it.each(['', 'a=b', ' =1', '-1.5', '+491711234567', '-1e300', '.5', "it's", "'quoted'", '{"a":"=1"}', '1-2'])(
    'is no formula and stays: %j',
    (text) => expect(escapeCsvFormula(text)).toBe(text),
  );

  it('is escaped by SQL as by this program, and can be given back exactly', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(texts, { minLength: 1, maxLength: 50 }), async (list) => {
        const rows = list.map((text, index) => `(${index}, ${sqlText(text)})`).join(', ');
        const found = await session.rows(
          `SELECT escaped, ${unescapeCsvFormulaSql('escaped')} AS back
           FROM (SELECT i, ${escapeCsvFormulaSql('t')} AS escaped FROM (VALUES ${rows}) AS v(i, t)) ORDER BY i`,
        );
        expect(found.map(({ escaped }) => escaped)).toEqual(list.map(escapeCsvFormula));
        expect(found.map(({ back }) => back)).toEqual(list);
      }),
      { numRuns: 40 },
    );
  });
});

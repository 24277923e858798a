import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sqlText } from '../../../src/core/sql.js';
import { commonForm, formOf, misfitsForm, plainText, textForm } from '../../../src/rows/text-form.js';
import { Database, type Session } from '../../../src/store/duckdb.js';
import { almostValues } from '../../fixtures/almost-values.js';

let database: Database;
let session: Session;
beforeAll(async () => {
  database = await Database.open({ memoryMb: 128, threads: 1 });
  session = await database.connect();
});
afterAll(() => {
  session.close();
  database.close();
});

const form = (code: string) => textForm(code) as NonNullable<ReturnType<typeof textForm>>;
const codes = [
  'BIGINT',
  'HUGEINT',
  'DECIMAL(18,1)',
  'DECIMAL(18,2)',
  'DECIMAL(38,2)',
  'DECIMAL(18,15)',
  'BOOLEAN true',
  'BOOLEAN True',
  'BOOLEAN TRUE',
  'DATE %Y-%m-%d',
  'DATE %d.%m.%Y',
  'DATE %Y/%m/%d',
  'TIMESTAMP %Y-%m-%d %H:%M:%S',
  'TIMESTAMP %Y-%m-%dT%H:%M:%S.%g',
  'TIMESTAMPTZ %Y-%m-%dT%H:%M:%SZ',
  'TIMESTAMPTZ %Y-%m-%dT%H:%M:%S.%gZ',
  'TIMESTAMPTZ %Y-%m-%d %H:%M:%S.%f+00:00',
];

function fits(code: string, text: string): boolean {
  const bytes = Buffer.from(`"${text}"`);
  return form(code).fits(bytes, 1, bytes.length - 1);
}

describe('the form of a text', () => {
  it.each([
    ['0', 'BIGINT'],
    ['-7', 'BIGINT'],
    ['9223372036854775807', 'BIGINT'],
    ['-9223372036854775808', 'BIGINT'],
    ['9223372036854775808', 'HUGEINT'],
    ['99999999999999999999999999999999999999', 'HUGEINT'],
    ['1.50', 'DECIMAL(18,2)'],
    ['-0.5', 'DECIMAL(18,1)'],
    ['123456789012345678.5', 'DECIMAL(38,1)'],
    ['true', 'BOOLEAN true'],
    ['False', 'BOOLEAN True'],
    ['2024-02-29', 'DATE %Y-%m-%d'],
    ['31.12.1999', 'DATE %d.%m.%Y'],
    ['2024-05-06T07:08:09Z', 'TIMESTAMPTZ %Y-%m-%dT%H:%M:%SZ'],
    ['2024-05-06T07:08:09.120Z', 'TIMESTAMPTZ %Y-%m-%dT%H:%M:%S.%gZ'],
    ['2024-05-06 07:08:09', 'TIMESTAMP %Y-%m-%d %H:%M:%S'],
  ])('%s is %s', (text, code) => {
    expect(formOf(text)).toBe(code);
  });

  it.each([
    '',
    ' ',
    '02134',
    '00',
    '-0',
    '-0.0',
    '+5',
    ' 5',
    '5 ',
    '1e5',
    '.5',
    '5.',
    '1,000',
    '0x1F',
    'NaN',
    'Infinity',
    '100000000000000000000000000000000000000',
    '0.1234567890123456',
    'tRue',
    'yes',
    '2024-02-30',
    '2023-02-29',
    '1900-02-29',
    '2024-13-01',
    '2024-1-1',
    '0001-01-01',
    '9999-12-31',
    '01/02/2024',
    '2024-05-06T24:00:00Z',
    '2024-05-06T07:08:60Z',
    '2024-05-06T07:08:09+02:00',
    '2024-05-06T07:08:09.1Z',
    'dddd-dd-dd',
    '٣',
    '😀',
  ])('%j is plain text', (text) => {
    expect(formOf(text)).toBe(plainText);
  });

  it('gives each text back, byte for byte, from a table and from a file', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(almostValues, { minLength: 50, maxLength: 200 }), async (texts) => {
        for (const text of new Set(texts)) {
          const code = formOf(text);
          if (code === plainText) continue;
          expect([text, fits(code, text)]).toEqual([text, true]);
        }
        const known = [...new Set(texts)].filter((text) => formOf(text) !== plainText);
        const selects = known.flatMap((text) =>
          (['table', 'file'] as const).map((kind) => {
            const own = form(formOf(text));
            return `SELECT ${sqlText(text)} AS sent, ${own.text(own.typed(sqlText(text), kind))} AS given`;
          }),
        );
        if (selects.length === 0) return;
        for (const { sent, given } of await session.rows(selects.join(' UNION ALL '))) expect(given).toBe(sent);
      }),
      { numRuns: 20 },
    );
  });

  it('is the same for the scanner and for DuckDB', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(almostValues, { minLength: 50, maxLength: 100 }), async (texts) => {
        const rows = texts.filter((text) => !text.includes('\0')).map((text) => `(${sqlText(text)})`);
        if (rows.length === 0) return;
        const checks = codes.map((code, index) => `NOT (${misfitsForm('t', form(code))}) AS c${index}`);
        const found = await session.rows(`SELECT t, ${checks.join(', ')} FROM (VALUES ${rows.join(', ')}) AS v(t)`);
        for (const row of found) {
          const text = String(row.t);
          for (const [index, code] of codes.entries())
            expect([text, code, row[`c${index}`]]).toEqual([text, code, fits(code, text)]);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('of several texts does not depend on their order, and holds each of them', () => {
    const together = (texts: readonly string[]) =>
      texts.reduce<string | undefined>((common, text) => commonForm(common, formOf(text)), undefined);
    fc.assert(
      fc.property(fc.array(almostValues, { minLength: 1, maxLength: 6 }), fc.array(almostValues), (texts, more) => {
        const all = [...texts, ...more];
        const common = together(all) as string;
        expect(together([...all].reverse())).toBe(common);
        expect(commonForm(together(texts), together(more))).toBe(common);
        expect(commonForm(common, common)).toBe(common);
        if (common !== plainText) for (const text of all) expect([text, fits(common, text)]).toEqual([text, true]);
      }),
      { numRuns: 2000 },
    );
  });

  it('of two texts is plain text if the format of one is not that of the other', () => {
    expect(commonForm(formOf('1.5'), formOf('1.50'))).toBe(plainText);
    expect(commonForm(formOf('1'), formOf('1.5'))).toBe(plainText);
    expect(commonForm(formOf('true'), formOf('True'))).toBe(plainText);
    expect(commonForm(formOf('2024-01-01'), formOf('01.01.2024'))).toBe(plainText);
    expect(commonForm(formOf('5'), formOf(''))).toBe(plainText);
    expect(commonForm(formOf('9223372036854775808'), formOf('5'))).toBe('HUGEINT');
    expect(commonForm(formOf('1.5'), formOf('123456789012345678.5'))).toBe('DECIMAL(38,1)');
  });
});

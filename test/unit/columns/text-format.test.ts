import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mergeTextFormats, parseTextCode, plainText } from '../../../src/columns/text-code.js';
import { inferTextFormat, textCheckOf, textFormatOf, textMismatchSql } from '../../../src/columns/text-format.js';
import { sqlText } from '../../../src/core/sql.js';
import { almostValues } from '../../fixtures/almost-values.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

const form = (code: string) => textFormatOf(code) as NonNullable<ReturnType<typeof textFormatOf>>;
const codes = [
  'BIGINT',
  'HUGEINT',
  'DECIMAL(18,1)',
  'DECIMAL(18,2)',
  'DECIMAL(38,2)',
  'DECIMAL(18,15)',
  'DOUBLE 5',
  'DOUBLE 5.0',
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
  'TIMESTAMPTZ %Y-%m-%dT%H:%M:%S.%f000Z',
];

function fits(code: string, text: string): boolean {
  const bytes = Buffer.from(`"${text}"`);
  return form(code).fits(bytes, 1, bytes.length - 1);
}

/** Whether a text changes nothing of a code. */
function checked(code: string, text: string): boolean {
  const bytes = Buffer.from(`"${text}"`);
  return textCheckOf(code)?.(bytes, 1, bytes.length - 1) === true;
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
    ['2024-05-06T07:08:09.123456000Z', 'TIMESTAMPTZ %Y-%m-%dT%H:%M:%S.%f000Z'],
    ['2024-05-06 07:08:09', 'TIMESTAMP %Y-%m-%d %H:%M:%S'],
  ])('%s is %s', (text, code) => {
    expect(parseTextCode(inferTextFormat(text)).name).toBe(code);
  });

  it.each([
    ['5', ['5']],
    ['5.0', ['5.0']],
    ['8814.3', ['5', '5.0']],
    ['8814.30', []],
    ['0.00001', ['5']],
    ['1e-05', ['5.0']],
    ['1e-7', ['5']],
    ['1e+21', ['5', '5.0']],
    ['9007199254740993', []],
    ['-0.0', undefined],
  ])('%s is the shortest text of a double as %j', (text, styles) => {
    const code = inferTextFormat(text);
    expect(code === plainText ? undefined : parseTextCode(code).styles).toEqual(styles);
  });

  it.each([
    ' ',
    '02134',
    '00',
    '-0',
    '-0.0',
    '+5',
    ' 5',
    '5 ',
    '1e5',
    '1E-7',
    '1e-400',
    '1e+400',
    '.5',
    '5.',
    '1,000',
    '0x1F',
    'NaN',
    'Infinity',
    '100000000000000000000000000000000000000',
    '0.12345678901234567',
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
    '2024-05-06T07:08:09.123456789Z',
    'dddd-dd-dd',
    '٣',
    '😀',
  ])('%j is plain text', (text) => {
    expect(inferTextFormat(text)).toBe(plainText);
  });

  it('gives each text back, byte for byte, from a table and from a file', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(almostValues, { minLength: 50, maxLength: 200 }), async (texts) => {
        for (const text of new Set(texts)) {
          const code = inferTextFormat(text);
          if (code === plainText) continue;
          expect([text, checked(code, text)]).toEqual([text, true]);
        }
        const known = [...new Set(texts)].filter((text) => text !== '' && inferTextFormat(text) !== plainText);
        const selects = known.flatMap((text) =>
          (['table', 'file'] as const).map((kind) => {
            const own = form(inferTextFormat(text));
            return `SELECT ${sqlText(text)} AS sent, ${own.text(own.typed(sqlText(text), kind))} AS returned`;
          }),
        );
        if (selects.length === 0) return;
        for (const { sent, returned } of await session.rows(selects.join(' UNION ALL '))) expect(returned).toBe(sent);
      }),
      { numRuns: 20 },
    );
  });

  it('is the same for the scanner and for DuckDB', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(almostValues, { minLength: 50, maxLength: 100 }), async (texts) => {
        const rows = texts.filter((text) => !text.includes('\0')).map((text) => `(${sqlText(text)})`);
        if (rows.length === 0) return;
        const checks = codes.map((code, index) => `NOT (${textMismatchSql('t', form(code))}) AS c${index}`);
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
      texts.reduce<string | undefined>((common, text) => mergeTextFormats(common, inferTextFormat(text)), undefined);
    fc.assert(
      fc.property(fc.array(almostValues, { minLength: 1, maxLength: 6 }), fc.array(almostValues), (texts, more) => {
        const all = [...texts, ...more];
        const common = together(all) as string;
        expect(together([...all].reverse())).toBe(common);
        expect(mergeTextFormats(together(texts), together(more))).toBe(common);
        expect(mergeTextFormats(common, common)).toBe(common);
        if (common !== plainText) for (const text of all) expect([text, checked(common, text)]).toEqual([text, true]);
      }),
      { numRuns: 2000 },
    );
  });

  it('of two texts is plain text if the format of one is not that of the other', () => {
    const together = (...texts: string[]) =>
      texts.reduce<string | undefined>((common, text) => mergeTextFormats(common, inferTextFormat(text)), undefined);
    expect(together('1.5', '1.50')).toBe(plainText);
    expect(together('5', '1.50')).toBe(plainText);
    expect(together('5', '5.0')).toBe(plainText);
    expect(together('5', '5.0', '8814.29')).toBe(plainText);
    expect(together('9007199254740993', '1.5')).toBe(plainText);
    expect(together('true', 'True')).toBe(plainText);
    expect(together('2024-01-01', '01.01.2024')).toBe(plainText);
    expect(together('9223372036854775808', '5')).toBe('HUGEINT');
    expect(together('1.5', '123456789012345678.5')).toBe('DECIMAL(38,1)');
  });

  it('of decimals is that of doubles if each is the shortest text of its double', () => {
    const formOf = (...texts: string[]) => {
      const code = texts.reduce<string | undefined>(
        (common, text) => mergeTextFormats(common, inferTextFormat(text)),
        undefined,
      );
      return textFormatOf(code)?.name;
    };
    expect(formOf('8814.29', '8814.3')).toBe('DOUBLE 5');
    expect(formOf('8814.29', '12')).toBe('DOUBLE 5');
    expect(formOf('8814.29', '12.0')).toBe('DOUBLE 5.0');
    expect(formOf('12', '-0.5', '1e-7')).toBe('DOUBLE 5');
    expect(formOf('8814.29', '8814.30')).toBe('DECIMAL(18,2)');
    expect(formOf('8814.29', '12.50')).toBe('DECIMAL(18,2)');
    expect(formOf('0.1234567890123456', '1.5')).toBe('DOUBLE 5');
  });

  it('does not depend on empty texts, which it remembers', () => {
    expect(mergeTextFormats(inferTextFormat('5'), inferTextFormat(''))).toBe('BIGINT|5,e');
    expect(textFormatOf(mergeTextFormats(inferTextFormat(''), inferTextFormat('1.50')))?.name).toBe('DECIMAL(18,2)');
    expect(textFormatOf(inferTextFormat(''))).toBeUndefined();
    expect(mergeTextFormats(inferTextFormat(''), inferTextFormat('n/a'))).toBe(plainText);
    expect(checked('EMPTY|e', '')).toBe(true);
    expect(checked('EMPTY|e', '5')).toBe(false);
    expect(checked('BIGINT|5', '')).toBe(false);
    expect(checked('BIGINT|5,e', '')).toBe(true);
  });
});

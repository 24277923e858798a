import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatNamed, inferTextFormat, textFormatOf } from '../../../src/columns/text-format.js';
import { exactValue } from '../../../src/delivery/table/exact-value.js';
import { parseColumnType } from '../../../src/sdk/column-type.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

interface Half {
  readonly whole: bigint;
  readonly isHalf: boolean;
}

const most64 = 2n ** 63n - 1n;
/** Without a zero after the point; of a double, without an exponent too. */
const plain = (shown: unknown) => String(shown).replace(/\.0$/, '');
const abs = (whole: bigint) => (whole < 0n ? -whole : whole);
const text = ({ whole, isHalf }: Half) => `${whole}${isHalf ? '.5' : ''}`;
const double = ({ whole, isHalf }: Half) =>
  isHalf ? whole > -(2n ** 52n) && whole < 2n ** 52n : BigInt(Number(whole)) === whole;
const within = (most: bigint) => (number: Half) => !number.isHalf && number.whole >= -most - 1n && number.whole <= most;

/** Which numbers, whole or with .5, each type holds. */
const types: Readonly<Record<string, (number: Half) => boolean>> = {
  BIGINT: within(most64),
  HUGEINT: within(2n ** 126n),
  DOUBLE: double,
  'DECIMAL(10,1)': ({ whole }) => whole > -(10n ** 9n) && whole < 10n ** 9n,
  'DECIMAL(38,1)': () => true,
  'DECIMAL(12,0)': ({ whole, isHalf }) => !isHalf && whole > -(10n ** 12n) && whole < 10n ** 12n,
};

const sizes = fc.constantFrom(10n, 10n ** 9n, 10n ** 12n, 2n ** 53n, most64, 10n ** 30n);
const numbers = fc
  .tuple(sizes, fc.bigInt({ min: -20n, max: 20n }), fc.boolean(), fc.boolean())
  // A half of a negative number would be further from zero than its digits say.
  .map(([size, off, isNegative, isHalf]): Half => {
    const whole = (isNegative ? -1n : 1n) * size + off;
    return { whole, isHalf: isHalf && whole > 0n };
  });

it('a number is in a column of another type exactly as it was, or not at all', async () => {
  const type = fc.constantFrom(...Object.keys(types));
  const property = fc.asyncProperty(numbers, type, type, async (number, from, to) => {
    fc.pre(types[from]?.(number) === true);
    const stream = { value: 'v', type: parseColumnType(from), duckdbType: from };
    const exact = exactValue(stream, { type: parseColumnType(to), duckdbType: to });
    const [row] = await session.rows(
      `SELECT (${exact})::${to}::VARCHAR AS shown FROM (SELECT '${text(number)}'::${from} AS v)`,
    );
    // DuckDB's own cast of a long number may be next to the double that it is: such a value counts as one that is not held.
    const isRounded = [from, to].includes('DOUBLE') && abs(number.whole) > 10n ** 14n;
    if (isRounded && row?.shown === null) return;
    if (types[to]?.(number) !== true) expect(row?.shown).toBeNull();
    else if (to === 'DOUBLE') expect(Number(row?.shown)).toBe(Number(text(number)));
    else if (from === 'DOUBLE') expect([text(number), String(Number(text(number)))]).toContain(plain(row?.shown));
    else expect(plain(row?.shown)).toBe(text(number));
  });
  await fc.assert(property, { numRuns: 500 });
});

/** The value of a text in a column of a type, as text; null if the column cannot hold it. @param form of the column's texts */
async function held(text: string, from: string, to: string, form?: string): Promise<unknown> {
  const stream = { value: 'v', type: parseColumnType(from), duckdbType: from };
  const declared = {
    type: parseColumnType(to),
    duckdbType: to,
    form: form === undefined ? undefined : formatNamed(form),
  };
  const [row] = await session.rows(
    `SELECT (${exactValue(stream, declared)})::VARCHAR AS shown FROM (SELECT '${text.replaceAll("'", "''")}'::${from} AS v)`,
  );
  return row?.shown;
}

describe('a text of a column whose texts were values', () => {
  const day = fc.date({ min: new Date('1000-01-01'), max: new Date('9998-12-31'), noInvalidDate: true });
  const iso = day.map((date) => date.toISOString());
  const micros = fc.integer({ min: 0, max: 999_999 }).map((part) => String(part).padStart(6, '0'));
  const moments = fc
    .tuple(iso, micros, fc.constantFrom('T', ' '), fc.constantFrom('', 'ms', 'us'), fc.constantFrom('', 'Z', '+00:00'))
    .map(([at, part, between, fraction, zone]) => {
      const digits = { '': '', ms: `.${part.slice(0, 3)}`, us: `.${part}` }[fraction] ?? '';
      return `${at.slice(0, 10)}${between}${at.slice(11, 19)}${digits}${zone}`;
    });
  const dates = fc.tuple(iso, fc.constantFrom('-', '/', '.')).map(([at, mark]) => {
    const parts = at.slice(0, 10).split('-');
    return mark === '.' ? parts.reverse().join('.') : parts.join(mark);
  });
  const digits = (most: number) => fc.bigInt({ min: -(10n ** BigInt(most)) + 1n, max: 10n ** BigInt(most) - 1n });
  const decimals = fc
    .tuple(digits(23), fc.integer({ min: 1, max: 15 }))
    .map(
      ([whole, places]) =>
        `${whole < 0n ? '-' : ''}${String(abs(whole))
          .padStart(places + 1, '0')
          .replace(new RegExp(`(\\d{${places}})$`), '.$1')}`,
    )
    .filter((text) => /[1-9]/.test(text));
  const doubles = fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => value !== 0);
  const texts = fc.oneof(
    ...[moments, dates, decimals, doubles.map(String), digits(18).map(String), digits(38).map(String)],
    fc.constantFrom('true', 'false', 'True', 'False', 'TRUE', 'FALSE', '1e-7', '-1e-7', '1e+21', '9'.repeat(38)),
  );

  it('is its value as before, digit for digit, once an odd text arrived; another text is not', async () => {
    const property = fc.asyncProperty(texts, fc.constantFrom('VARCHAR', 'JSON'), async (text, now) => {
      const form = textFormatOf(inferTextFormat(text));
      fc.pre(form !== undefined);
      if (form === undefined) return;
      const was = await session.rows(`SELECT (${form.typed(`'${text}'`, 'table')})::VARCHAR AS shown`);
      const [quote, odd] = now === 'JSON' ? ['"', '"n/a"'] : ['', 'n/a'];
      expect(await held(`${quote}${text}${quote}`, now, form.type, form.name)).toBe(was[0]?.shown);
      for (const other of [odd, `${quote}${text} ${quote}`, `${quote}0${text}${quote}`, `${quote}${quote}`].slice(
        0,
        now === 'JSON' ? 3 : 4,
      ))
        expect(await held(other, now, form.type, form.name)).toBeNull();
    });
    await fc.assert(property, { numRuns: 150 });
  });

  it.each([
    ['31.12.2024', 'DATE %d.%m.%Y', '2024-12-31'],
    ['2024/02/01', 'DATE %Y/%m/%d', '2024-02-01'],
    ['True', 'BOOLEAN True', 'true'],
    ['FALSE', 'BOOLEAN TRUE', 'false'],
    ['2024-02-29 10:00:00', 'TIMESTAMP %Y-%m-%d %H:%M:%S', '2024-02-29 10:00:00'],
    ['2024-02-29T10:00:00', 'TIMESTAMP %Y-%m-%dT%H:%M:%S', '2024-02-29 10:00:00'],
    ['2024-02-29T10:00:00+00:00', 'TIMESTAMPTZ %Y-%m-%dT%H:%M:%S+00:00', '2024-02-29 10:00:00+00'],
    ['1e-7', 'DOUBLE 5', '1e-07'],
  ])('%s', async (text, form, shown) => {
    expect(await held(text, 'VARCHAR', formatNamed(form).type, form)).toBe(shown);
  });

  it('is not a value that another format would make of it', async () => {
    expect(await held('01.02.2024', 'VARCHAR', 'DATE', 'DATE %Y-%m-%d')).toBeNull();
    expect(await held('true', 'VARCHAR', 'BOOLEAN', 'BOOLEAN True')).toBeNull();
  });
});

describe('a number of a JSON value', () => {
  it.each([
    ['1e-7', 'DOUBLE', '1e-07'],
    ['0.1', 'DOUBLE', '0.1'],
    ['1e21', 'DOUBLE', '1e+21'],
    ['0.30000000000000004', 'DOUBLE', '0.30000000000000004'],
    ['0.300000000000000041', 'DOUBLE', null],
    ['1e-400', 'DOUBLE', null],
    ['9007199254740993', 'DOUBLE', null],
    ['1.5', 'DECIMAL(10,2)', '1.50'],
    ['1.505', 'DECIMAL(10,2)', null],
    ['9'.repeat(38), 'HUGEINT', '9'.repeat(38)],
    [`1${'0'.repeat(38)}`, 'HUGEINT', null],
    ['170141183460469231731687303715884105727', 'HUGEINT', null],
    ['[1e-7, 5.5]', 'DOUBLE[]', '[1e-07, 5.5]'],
    [`[${'9'.repeat(38)}]`, 'HUGEINT[]', `[${'9'.repeat(38)}]`],
    [`[1${'0'.repeat(38)}]`, 'HUGEINT[]', null],
    [`{"HUGEINT":1${'0'.repeat(38)}}`, 'STRUCT("HUGEINT" HUGEINT)', null],
    [`{"HUGEINT":${'9'.repeat(38)}}`, 'STRUCT("HUGEINT" HUGEINT)', `{'HUGEINT': ${'9'.repeat(38)}}`],
  ])('%s in a column of %s', async (text, type, shown) => {
    expect(await held(text.replaceAll(' ', ''), 'JSON', type)).toBe(shown);
  });

  it.each([
    ['{"a":2,"b":1}', 'STRUCT(b BIGINT, a BIGINT)', "{'b': 1, 'a': 2}"],
    ['{"a":2}', 'STRUCT(b BIGINT, a BIGINT)', "{'b': NULL, 'a': 2}"],
    ['{"a":2,"b":null}', 'STRUCT(a BIGINT, b BIGINT)', "{'a': 2, 'b': NULL}"],
    ['{"a":2,"c":1}', 'STRUCT(b BIGINT, a BIGINT)', null],
    ['[{"x":5,"y":[{}]},null]', 'STRUCT(y STRUCT(z BIGINT)[], x DOUBLE)[]', "[{'y': [{'z': NULL}], 'x': 5.0}, NULL]"],
    ['{"a":"2"}', 'STRUCT(a BIGINT, b BIGINT)', null],
    ['{"a":1.50}', 'STRUCT(b BIGINT, a DOUBLE)', null],
  ])('the object %s fits exactly into %s, wherever its members are and whichever it lacks, or not', async (...each) => {
    const [text, type, shown] = each;
    expect(await held(text, 'JSON', type)).toBe(shown);
  });

  it('an object of fewer members fits into one of more', async () => {
    const [from, to] = ['STRUCT(b BIGINT, c VARCHAR)', 'STRUCT(a BIGINT, b BIGINT, c VARCHAR)'];
    expect(await held("{'b': 1, 'c': 'x'}", from, to)).toBe("{'a': NULL, 'b': 1, 'c': x}");
    expect(await held("{'a': 1, 'b': 1, 'c': 'x'}", to, from)).toBeNull();
  });

  it.each([
    ['0.1', 'DOUBLE', 'DECIMAL(38,20)', '0.10000000000000000000'],
    ['0.30000000000000004', 'DOUBLE', 'DECIMAL(38,20)', '0.30000000000000004000'],
    ['0.10000000000000000000', 'DECIMAL(38,20)', 'DOUBLE', '0.1'],
    ['0.10000000000000000001', 'DECIMAL(38,20)', 'DOUBLE', null],
    ['0.30000000000000004441', 'DECIMAL(38,20)', 'DOUBLE', null],
    ["{'b': 1}", 'STRUCT(b BIGINT)', 'BIGINT', null],
    ['[1]', 'BIGINT[]', 'BOOLEAN', null],
    ['[0.5]', 'DOUBLE[]', 'VARCHAR', '[0.5]'],
  ])('%s of type %s is in a column of %s digit for digit, or not at all', async (text, from, to, shown) => {
    expect(await held(text, from, to)).toBe(shown);
  });

  it('never makes a value that no file can have', async () => {
    expect(await held('1.5e38', 'DOUBLE', 'HUGEINT')).toBeNull();
  });
});

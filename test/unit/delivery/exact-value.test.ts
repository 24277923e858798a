import fc from 'fast-check';
import { expect, it } from 'vitest';
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

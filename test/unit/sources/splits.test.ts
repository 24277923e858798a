import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { costOf, isFilterable, isWorthSplitting, rankSplits, type Split } from '../../../src/sources/splits.js';

function split(attributes: readonly string[], rows: readonly number[]): Split {
  const parts = rows.map((each, index) => ({
    values: attributes.map((attribute) => [attribute, `v${index}`] as const),
    rows: each,
  }));
  return { attributes, parts };
}

const even = (parts: number, rows: number) => Array.from({ length: parts }, () => rows / parts);

describe('the choice of a split', () => {
  const reading = { pageSize: 500, atOnce: 64 };

  it('takes the attribute whose largest part is the shortest', () => {
    const skewed = split(['tier'], [80_000, 10_000, 10_000]);
    const good = split(['country'], even(10, 100_000));
    expect(rankSplits([skewed, good], reading)[0]?.attributes).toEqual(['country']);
  });

  it('takes two attributes where one leaves a part too long', () => {
    const one = split(['country'], even(4, 400_000));
    const two = split(['country', 'tier'], even(16, 400_000));
    expect(rankSplits([one, two], reading)[0]?.attributes).toEqual(['country', 'tier']);
  });

  it('takes the split with fewer requests where another one is hardly quicker', () => {
    const few = split(['country'], even(32, 96_000));
    const many = split(['city'], even(100, 96_000));
    expect(rankSplits([many, few], { pageSize: 500, atOnce: 16 })[0]?.attributes).toEqual(['country']);
  });

  it('reads a small list as one, and a list that no attribute splits well', () => {
    expect(isWorthSplitting(9_000, 500)).toBe(false);
    expect(rankSplits([split(['country'], even(10, 9_000))], reading)).toEqual([]);
    expect(rankSplits([split(['is_new'], [99_000, 1_000])], reading)).toEqual([]);
    // A thousand parts of ten records need five times the requests.
    expect(rankSplits([split(['zip'], even(1_000, 10_000))], reading)).toEqual([]);
  });

  it('never costs more than half as many requests again, nor less than 30 % of the turns of one chain', () => {
    const sizes = fc.array(fc.nat({ max: 50_000 }), { minLength: 2, maxLength: 40 });
    fc.assert(
      fc.property(fc.array(sizes, { maxLength: 5 }), fc.integer({ min: 1, max: 200 }), (all, atOnce) => {
        const splits = all.map((rows, index) => split([`a${index}`], rows));
        for (const chosen of rankSplits(splits, { pageSize: 500, atOnce })) {
          const rows = chosen.parts.reduce((sum, part) => sum + part.rows, 0);
          const { requests, turns } = costOf(chosen, { pageSize: 500, atOnce });
          expect(requests).toBeLessThanOrEqual(1.5 * Math.ceil(rows / 500));
          expect(turns).toBeLessThanOrEqual(0.7 * Math.ceil(rows / 500));
        }
      }),
    );
  });
});

it('a filter is not trusted with empty text, spaces at the ends, control characters and replaced bytes', () => {
  for (const value of ['DE', 'New York', 'São Paulo', '東京', 'a,b', '02134', '=x&y'])
    expect(isFilterable(value)).toBe(true);
  for (const value of ['', ' DE', 'DE ', 'a\nb', 'a\0', 'x\u{FFFD}', '\u{D800}', 'x'.repeat(201)])
    expect(isFilterable(value)).toBe(false);
});

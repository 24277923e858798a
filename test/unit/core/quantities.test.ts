import { expect, it } from 'vitest';
import { formatCount, formatDuration, formatNames, fullTime, parseMoment } from '../../../src/core/quantities.js';

it.each([
  [940, '0.9 s'],
  [9_949, '9.9 s'],
  [9_960, '10 s'],
  [59_400, '59 s'],
  [59_600, '1 min 0 s'],
  [719_700, '12 min 0 s'],
  [3_599_600, '1 h 0 min'],
  [3 * 86_400_000, '3 days'],
])('%d milliseconds are %s', (ms, said) => {
  expect(formatDuration(ms)).toBe(said);
});

it.each([0, 1, 999, 1000, -1000, 123_456, 1_234_567, Number.MAX_SAFE_INTEGER, 0.5, 1234.5678])(
  'writes the count %d as English does',
  (n) => {
    expect(formatCount(n)).toBe(n.toLocaleString('en-US'));
  },
);

it.each([
  ['2026-01-31', '2026-01-31T00:00:00.000Z'],
  ['2026-01-31 10:30', '2026-01-31T10:30:00.000Z'],
  ['2026-01-31T10:30:00+02:00', '2026-01-31T08:30:00.000Z'],
  ['2026-01-31 10:30:00.123456+00', '2026-01-31T10:30:00.123Z'],
  ['2028-02-29', '2028-02-29T00:00:00.000Z'],
])('%s is the time %s', (written, time) => {
  expect(fullTime(written)).toBe(time);
});

it.each([
  '2026-02-29',
  '2026-02-30',
  '2026-06-31T12:00Z',
  '2026-13-01',
  '2026-01-31T25:00Z',
  '5',
  '2026',
  'yesterday',
  '',
])('%j is no time', (written) => {
  expect(fullTime(written)).toBeUndefined();
  expect(parseMoment(written)).toBeNaN();
});

it('a line names a few, and counts the others', () => {
  expect(formatNames([], 2)).toBe('');
  expect(formatNames(['a', 'b'], 2)).toBe('a, b');
  expect(formatNames(['a', 'b', 'c', 'd'], 2)).toBe('a, b and 2 more');
  expect(formatNames(['a', 'b'], 1, '; ')).toBe('a and 1 more');
});

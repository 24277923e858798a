import { expect, it } from 'vitest';
import {
  formatAge,
  formatBytes,
  formatCount,
  formatDuration,
  formatNames,
  fullTime,
  inSeconds,
  median,
  parseDurationMs,
  parseMoment,
} from '../../../src/core/quantities.js';

it.each([
  [940, '0.9 s'],
  [9_949, '9.9 s'],
  [9_950, '10 s'],
  [59_499, '59 s'],
  [90_400, '1 min 30 s'],
  [47 * 3_600_000 + 59 * 60_000, '47 h 59 min'],
  [48 * 3_600_000, '2 days'],
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

it.each([
  ['1ms', 1],
  ['1.5s', 1500],
  ['2m', 120_000],
  ['3h', 10_800_000],
  ['4 d', 345_600_000],
  [' 2w ', 1_209_600_000],
])('the duration %j has %d ms', (text, ms) => {
  expect(parseDurationMs(text)).toBe(ms);
});

it.each(['', '5', '5 years', '-1s', '1h30m', 's'])('%j is no duration', (text) => {
  expect(parseDurationMs(text)).toBeUndefined();
});

it.each([
  [0, '0 B'],
  [999, '999 B'],
  [999.5, '1.0 kB'],
  [1000, '1.0 kB'],
  [12_345_678, '12.3 MB'],
  [100_000, '100 kB'],
  [99_900, '99.9 kB'],
  [999_499, '999 kB'],
  [999_500, '1.0 MB'],
  [7e15, '7000 TB'],
])('%d bytes are %s', (bytes, said) => {
  expect(formatBytes(bytes)).toBe(said);
});

it('an age in the future is shown as a clock that was ahead', () => {
  expect(formatAge(0)).toBe('0.0 s ago');
  expect(formatAge(-1)).toContain('a clock was ahead');
  expect(inSeconds(1234.4)).toBe(1.234);
});

it.each([
  [[], 0],
  [[7], 7],
  [[9, 1], 5],
  [[30, 1, 2], 2],
  [[4, 100, 1, 2], 3],
])('the middle of %j is %d', (values, middle) => {
  expect(median(values)).toBe(middle);
});

/**
 * Milliseconds that `Retry-After` asks to wait, given as seconds or as a date; undefined if the header is missing or
 * unreadable. A date is compared with the response's own `Date`, so that clocks need not agree. The caller limits the wait.
 * @param headers by lower-case name
 * @param nowMs the time of day in milliseconds, used if the response has no `Date`
 */
export function retryAfterMs(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  nowMs: number,
): number | undefined {
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  // Sums with it must stay exact and finite, whatever the number of digits.
  if (/^\s*\d+(\.\d+)?\s*$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER);
  // Date.parse takes almost any number for a date.
  const until = /^\s*[a-z]{3}/i.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(until)) return undefined;
  const date = typeof headers.date === 'string' ? Date.parse(headers.date) : Number.NaN;
  return Math.max(0, until - (Number.isNaN(date) ? nowMs : date));
}

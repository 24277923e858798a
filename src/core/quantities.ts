const durationUnits: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Milliseconds in a duration such as `500ms`, `12h` or `30d`; undefined if the text is not a duration. */
export function parseDurationMs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)$/.exec(text.trim());
  if (match === null) return undefined;
  return Math.round(Number(match[1]) * (durationUnits[match[2] as string] as number));
}

/** Milliseconds as seconds, to the millisecond. */
export function inSeconds(ms: number): number {
  return Math.round(ms) / 1000;
}

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB'];

/** A number of bytes for people to read, in powers of 1000: `12.3 MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < byteUnits.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${byteUnits[unit]}`;
}

/** A span of milliseconds for people to read: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `3 days`. */
export function formatDuration(ms: number): string {
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  // Rounded first: 119.6 s are 2 minutes, not 1 minute and 60 seconds.
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.round(hours / 24)} days`;
}

/** How long ago something was. A time that is still to come was noted with a clock that was ahead. */
export function formatAge(ms: number): string {
  return ms < 0 ? 'at a time that has not come yet (a clock was ahead)' : `${formatDuration(ms)} ago`;
}

/** A number with thousands separated and at most three decimals: `1,234,567`. */
export function formatCount(count: number): string {
  // As toLocaleString('en-US') does, which loads the data of all locales: 15 ms of CPU time.
  const [whole = '', ...decimals] = String(Math.round(count * 1000) / 1000).split('.');
  return [whole.replace(/\B(?=(\d{3})+$)/g, ','), ...decimals].join('.');
}

/** A count with its noun: `1 row`, `2,500 rows`. */
export function formatCounted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** `a, b and 3 more`: no more names than `most`. */
export function formatNames(names: readonly string[], most: number, separator = ', '): string {
  const more = names.length > most ? ` and ${formatCount(names.length - most)} more` : '';
  return `${names.slice(0, most).join(separator)}${more}`;
}

/** A date or a time as people write it in a configuration: ISO 8601. */
export const momentForm = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$/;

/** A date or a time as a full time in UTC with milliseconds; undefined for other text. `2026-01-01` is its midnight. */
export function fullTime(written: string): string | undefined {
  const ms = parseMoment(written);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}

/**
 * A date or a time as milliseconds since 1970. A time without an offset is UTC. Anything else gives NaN, also a day that the calendar
 * does not have: JavaScript takes 30 February for 2 March, and 7 for July 2001.
 */
export function parseMoment(written: string): number {
  const day = written.slice(0, 10);
  const isDay = momentForm.test(written) && !Number.isNaN(Date.parse(day));
  if (!isDay || new Date(day).toISOString().slice(0, 10) !== day) return Number.NaN;
  const [, time = '', offset = 'Z'] = /^[T ](.*?)(Z|[+-]\d{2}(?::?\d{2})?)?$/.exec(written.slice(10)) ?? [];
  // DuckDB writes +00 for UTC.
  return Date.parse(time === '' ? day : `${day}T${time}${offset.length === 3 ? `${offset}:00` : offset}`);
}

/** The middle of some numbers; of an even number of them, the mean of the two in the middle; of none, 0. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  const upper = sorted[half] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? upper) + upper) / 2;
}

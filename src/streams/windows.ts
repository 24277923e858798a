import type { Window } from './source.js';

/** A span of time in milliseconds since 1970, its end excluded. */
export type Span = readonly [from: number, to: number];

/** The shortest window that a long span is cut into. */
const shortestMs = 3_600_000;
/** Windows that a long span is cut into at least, so that several can be read side by side. */
const wantedWindows = 24;

/** Spans in order, those that touch or overlap made one. */
export function merged(spans: readonly Span[]): Span[] {
  const result: [number, number][] = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (to <= from) continue;
    const last = result.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else result.push([from, to]);
  }
  return result;
}

/** What of `span` none of the others covers. */
export function uncovered([from, to]: Span, covered: readonly Span[]): Span[] {
  const gaps: Span[] = [];
  let at = from;
  for (const [start, end] of merged(covered)) {
    if (start >= to) break;
    if (start > at) gaps.push([at, start]);
    at = Math.max(at, end);
  }
  if (at < to) gaps.push([at, to]);
  return gaps;
}

/** A span cut into windows of equal length, none longer than `longestMs`. */
export function cut([from, to]: Span, longestMs: number): Window[] {
  const length = to - from;
  const width = Math.min(longestMs, Math.max(shortestMs, Math.ceil(length / wantedWindows)));
  const count = Math.max(1, Math.ceil(length / width));
  const bound = (index: number) => new Date(index === count ? to : from + index * width).toISOString();
  return Array.from({ length: count }, (_, index) => ({ from: bound(index), to: bound(index + 1) }));
}

export interface WindowPlan {
  /** From here on, if nothing was read yet; what lies before it in `covered` is not read again. */
  readonly sinceMs: number;
  /** The service's present. */
  readonly untilMs: number;
  /** What earlier runs have read for good. */
  readonly covered: readonly Span[];
  /** So much of the newest that was read is read again. */
  readonly lagMs: number;
  readonly longestMs: number;
}

/**
 * The windows that a run has to read: everything from `since` to now that no run has read, and the lag before the end of
 * what was read, in which late records may have appeared.
 */
export function planWindows({ sinceMs, untilMs, covered, lagMs, longestMs }: WindowPlan): Window[] {
  const known = merged(covered);
  const end = known.at(-1)?.[1];
  const settled = end === undefined ? known : known.map(([from, to]): Span => [from, Math.min(to, end - lagMs)]);
  const first = Math.min(sinceMs, untilMs);
  return uncovered([first, untilMs], merged(settled)).flatMap((span) => cut(span, longestMs));
}

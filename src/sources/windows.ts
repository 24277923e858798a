import type { Window } from './source.js';

/** A span of time in milliseconds since 1970, its end excluded. */
export type Span = readonly [from: number, to: number];

/** The shortest window that a long time is cut into. */
const minMs = 3_600_000;
/** A long time is cut into at least this many windows, so that several can be read at once. */
const wantedWindows = 24;

/** Sorts spans, and joins those that touch or overlap. */
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

/** The parts of a span that none of the others covers. */
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

interface SettledQuestion {
  /** What earlier runs have settled. */
  readonly covered: readonly Window[];
  /** The windows of this reading. */
  readonly read: readonly (Window & { readonly isEmpty: boolean })[];
  /** When this reading began. */
  readonly beganMs: number;
  /** {@link WindowedSource.certainMs} */
  readonly certainMs?: number | undefined;
}

/**
 * The spans that need no further reading. Time after the start of the reading does not count: if the service's clock is ahead,
 * that time is read again. Nor does an empty window from before the time for which the service is known to have data.
 */
export function settled({ covered, read, beganMs, certainMs }: SettledQuestion): Window[] {
  const provenMs = beganMs - (certainMs ?? Number.POSITIVE_INFINITY);
  const coveredSpans = covered.map(({ from, to }): Span => [Date.parse(from), Date.parse(to)]);
  const readSpans = read.map(({ from, to, isEmpty }): Span => {
    const first = Date.parse(from);
    return [isEmpty ? Math.max(first, provenMs) : first, Date.parse(to)];
  });
  const spans = [...coveredSpans, ...readSpans].map(([from, to]): Span => [from, Math.min(to, beganMs)]);
  return merged(spans).map(([from, to]) => ({ from: new Date(from).toISOString(), to: new Date(to).toISOString() }));
}

/** Cuts spans into windows of one length (the last of a span may be shorter), none longer than `maxMs`. */
export function cut(spans: readonly Span[], maxMs: number): Window[] {
  const total = spans.reduce((sum, [from, to]) => sum + (to - from), 0);
  const width = Math.min(maxMs, Math.max(minMs, Math.ceil(total / wantedWindows)));
  return spans.flatMap((span) => cutBy(span, width));
}

function cutBy([from, to]: Span, width: number): Window[] {
  const length = to - from;
  const count = Math.max(1, Math.ceil(length / width));
  const bound = (index: number) => new Date(index === count ? to : from + index * width).toISOString();
  return Array.from({ length: count }, (_, index) => ({ from: bound(index), to: bound(index + 1) }));
}

interface WindowPlan {
  /** Nothing before it is read. */
  readonly sinceMs: number;
  /** The service's current time. */
  readonly untilMs: number;
  /** The spans that earlier runs have read. */
  readonly covered: readonly Span[];
  /** This much before the end of `covered` is read again. */
  readonly lagMs: number;
  readonly maxMs: number;
}

/**
 * The windows that a run has to read: everything from `since` to now that no run has read, and the lag before the end of
 * the time that was read, for late records may have appeared there.
 */
export function planWindows({ sinceMs, untilMs, covered, lagMs, maxMs }: WindowPlan): Window[] {
  const spans = merged(covered);
  const end = spans.at(-1)?.[1];
  const settled = end === undefined ? spans : spans.map(([from, to]): Span => [from, Math.min(to, end - lagMs)]);
  const first = Math.min(sinceMs, untilMs);
  return cut(uncovered([first, untilMs], merged(settled)), maxMs);
}

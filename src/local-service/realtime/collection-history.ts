import type { Collection } from './collection.js';

/** Widths of buckets, in milliseconds. */
export const scales = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

export type Scale = keyof typeof scales;

export const maxBuckets = 5000;
const defaultBuckets = 30;

export interface HistoryRange {
  readonly scale: Scale;
  /** Milliseconds since the Unix epoch. The first bucket contains this time. */
  readonly after?: number | undefined;
  /** Milliseconds since the Unix epoch. The last bucket contains this time (published facts, Real-time API). */
  readonly before?: number | undefined;
}

/** The start of the first bucket, and of the one after the last; no bucket begins in the future. */
export function bucketRange({ scale, after, before }: HistoryRange, now: number): { first: number; end: number } {
  const width = scales[scale];
  const end = (Math.floor(Math.min(before ?? Number.POSITIVE_INFINITY, now) / width) + 1) * width;
  const first = after === undefined ? end - defaultBuckets * width : Math.floor(after / width) * width;
  return { first, end: Math.max(first, end) };
}

/** The size of a collection at the end of each bucket, and now for the present one (specification, section 4.10). */
export function collectionHistory(collection: Collection, range: HistoryRange, now: number) {
  const width = scales[range.scale];
  const { first, end } = bucketRange(range, now);
  const data = Array.from({ length: (end - first) / width }, (_, index) => {
    const start = first + index * width;
    const count = start + width > now ? collection.total() : collection.counts.before(start + width);
    return { bucket: new Date(start).toISOString(), count };
  });
  return { scale: range.scale, data };
}

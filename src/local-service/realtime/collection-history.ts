import type { Collection } from './collection.js';

/** Widths of buckets in milliseconds. */
export const scales = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

export type Scale = keyof typeof scales;

export const maxBuckets = 5000;
const defaultBuckets = 30;

export interface HistoryRange {
  readonly scale: Scale;
  /** Milliseconds since the Unix epoch. The bucket that this falls into is the first. */
  readonly after?: number | undefined;
  /** What begins here or later is left out. */
  readonly before?: number | undefined;
}

/** Starts of the first bucket and of the one behind the last; buckets that are yet to come are none. */
export function bucketRange({ scale, after, before }: HistoryRange, now: number): { first: number; end: number } {
  const width = scales[scale];
  const end = Math.ceil(Math.min(before ?? Number.POSITIVE_INFINITY, now + 1) / width) * width;
  const first = after === undefined ? end - defaultBuckets * width : Math.floor(after / width) * width;
  return { first, end: Math.max(first, end) };
}

/** Sizes of a collection at the end of each bucket, of the present one at this moment (specification, section 4.10). */
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

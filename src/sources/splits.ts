/** The records of a list that have these values; a request asks for them with one filter for each pair. */
export interface SplitPart {
  readonly values: readonly (readonly [attribute: string, value: string])[];
  /** How many there were in the last snapshot. */
  readonly rows: number;
}

/** A way to read a list in parts. Each record of the last snapshot is in exactly one of them. */
export interface Split {
  /** One attribute, or two. */
  readonly attributes: readonly string[];
  /** The largest first. Of two attributes, each pair of their values, even those that no record had. */
  readonly parts: readonly SplitPart[];
}

/**
 * The most parts of a split. Each costs at least one request, a chain and a line of the journal, and no limit has use for more
 * chains at once.
 */
export const maxParts = 1024;
/** A list of fewer pages is read as one: parts would save a second, and cost two totals. */
const minPages = 20;
/** A split must save at least this share of the round trips that follow one after the other. */
const minSavedShare = 0.3;
/** A split may cost this many times the requests of the whole list: each part ends with a page that is not full. */
const maxRequests = 1.5;
/** Of splits that take up to this much longer than the quickest, the one with the fewest requests wins. */
const aboutAsQuick = 1.2;

/**
 * Whether a filter surely finds the records with a value. An empty one may count as no filter, spaces at the ends may be cut
 * off, and U+FFFD may be in the place of bytes that the service sent differently.
 */
export function isFilterable(value: string): boolean {
  return value !== '' && value.length <= 200 && value.trim() === value && !/[\p{Cc}\p{Cs}\uFFFD]/u.test(value);
}

/** Pages of records; an empty part takes one too. */
export function pagesOf(rows: number, pageSize: number): number {
  return Math.max(1, Math.ceil(rows / pageSize));
}

/** Whether a list has enough pages for parts to save time. */
export function isWorthSplitting(rows: number, pageSize: number): boolean {
  return pagesOf(rows, pageSize) >= minPages;
}

/**
 * @param atOnce how many parts may be read at once; each next part begins where one has ended
 * @returns `turns`: round trips that follow one after the other
 */
export function costOf(
  { parts }: Pick<Split, 'parts'>,
  { pageSize, atOnce }: { pageSize: number; atOnce: number },
): { requests: number; turns: number } {
  const pages = parts.map(({ rows }) => pagesOf(rows, pageSize));
  const requests = pages.reduce((sum, count) => sum + count, 0);
  const lanes = Array.from({ length: Math.min(atOnce, pages.length) }, () => 0);
  for (const count of pages) {
    const free = lanes.indexOf(Math.min(...lanes));
    lanes[free] = (lanes[free] ?? 0) + count;
  }
  return { requests, turns: Math.max(0, ...lanes) };
}

/** The splits that are worth their requests, the best first: the quickest, and of about equally quick ones that with the fewest requests. */
export function rankSplits(splits: readonly Split[], reading: { pageSize: number; atOnce: number }): Split[] {
  const left = splits.flatMap((split) => {
    const rows = split.parts.reduce((sum, part) => sum + part.rows, 0);
    if (!isWorthSplitting(rows, reading.pageSize)) return [];
    const whole = pagesOf(rows, reading.pageSize);
    const cost = costOf(split, reading);
    const isWorth = cost.turns <= whole * (1 - minSavedShare) && cost.requests <= whole * maxRequests;
    return isWorth ? [{ split, ...cost }] : [];
  });
  const ranked: Split[] = [];
  while (left.length > 0) {
    const quickest = Math.min(...left.map(({ turns }) => turns));
    const quick = left.filter(({ turns }) => turns <= quickest * aboutAsQuick);
    const [best] = quick.sort((a, b) => a.requests - b.requests || a.split.parts.length - b.split.parts.length);
    if (best === undefined) break;
    ranked.push(best.split);
    left.splice(left.indexOf(best), 1);
  }
  return ranked;
}

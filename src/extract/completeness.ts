import { CdsyncError } from '../core/errors.js';
import { isRefusal } from './page-fetcher.js';
import type { Partition } from './partition.js';

/** A list that is checked against its own total. */
export interface CountedRead {
  /** `GET /indexes/{id}/profiles` */
  readonly label: string;
  /** Whether the endpoint may return page tokens that lead nowhere. */
  readonly distrustsTokens: boolean;
  /** Whether the stream fails if it has fewer records than the total. */
  readonly checkTotal: boolean;
  /** The total before the reading; null if the service gave none, or if it is not asked before it must be. */
  readonly totalAtStart: number | null;
  /**
   * Takes in the response to a request without parameters, if it is the whole list. Left out: the endpoint is not asked so.
   * @returns whether it was
   */
  readInOneAnswer?: (() => Promise<boolean>) | undefined;
  /** The partitions that together make the list, unless they leave records out. */
  readonly partitions: readonly Partition[];
  /** How many records a page may have, as far as is known. */
  pageSize(): number;
  /** The total now; null if the service gives none. */
  total(): Promise<number | null>;
  /** The different keys that the partitions had returned when an earlier process began the pass over the whole list; undefined if none did. */
  readonly partitionKeys: number | undefined;
  /** Reads partitions to their last page. @param partitionKeys of a pass over the whole list: {@link partitionKeys} */
  read(
    partitions: readonly Partition[],
    options?: { readonly pageSize?: number; readonly partitionKeys?: number },
  ): Promise<void>;
  /** How many different keys were read so far. */
  distinctKeys(): Promise<number>;
  /** Called if the list should be compared with its total, and the service gave none. */
  hasNoTotal(): void;
  /** Called after one more pass over the whole list: how many records no earlier one had returned. */
  missed(records: number): void;
}

/**
 * Reads a list and compares its records with the totals before and after the reading. If records seem to be missing, it reads
 * the whole list once more.
 * @throws {CdsyncError} `total_mismatch`, `members_incomplete`, and the errors of the reading
 */
export async function readWithTotal(list: CountedRead): Promise<void> {
  if (await list.readInOneAnswer?.()) return;
  if (list.distrustsTokens) return readInPages(list);
  await list.read(list.partitions);
  await complete(list);
}

/** Partitions may leave records out (without the attribute, or with an unlisted value), so their union is counted. */
async function complete(list: CountedRead): Promise<void> {
  const isPartitioned = list.partitions[0]?.kind !== 'whole';
  const wanted = await wantedRecords(list);
  if (list.checkTotal && wanted === null) list.hasNoTotal();
  const partitionKeys = list.partitionKeys ?? (await list.distinctKeys());
  // A few records may have been deleted since. But a total far below the count cannot show that partitions left none out.
  const most = isPartitioned ? (wanted ?? 0) + Math.max(10, partitionKeys / 100) : Number.POSITIVE_INFINITY;
  if (list.partitionKeys === undefined && wanted !== null && partitionKeys >= wanted && partitionKeys <= most) return;
  await list.read([{ kind: isPartitioned ? 'whole' : 'again' }], isPartitioned ? { partitionKeys } : {});
  const distinct = await list.distinctKeys();
  list.missed(distinct - partitionKeys);
  if (!list.checkTotal) return;
  const least = Math.min(list.totalAtStart ?? 0, (await list.total()) ?? 0);
  if (distinct >= least) return;
  throw new CdsyncError(
    `the list has ${least} records by its own total, but only ${distinct} came, even in a second reading`,
    {
      code: 'total_mismatch',
      hint: 'the service withholds records; run again, or set `check_total: false` if its totals are known to be wrong',
    },
  );
}

/** Says what would help if the service takes no parameters, and yet did not respond with the whole list. */
async function readInPages(list: CountedRead): Promise<void> {
  try {
    const totalAtStart = list.totalAtStart ?? (await list.total());
    await readByTotal({ ...list, totalAtStart });
  } catch (error) {
    if (list.readInOneAnswer === undefined || !isRefusal(error)) throw error;
    throw new CdsyncError(`${list.label} answered with a part of its members, and refused a request for more`, {
      code: 'members_incomplete',
      hint: `the last snapshot stays; ask the operator of the service for ${list.label} to answer with all members, or to take \`limit\``,
      cause: error,
    });
  }
}

/** Reads a list whose page tokens may point back to its start. The second reading asks for one page large enough for all. */
async function readByTotal(list: CountedRead): Promise<void> {
  let circled = await endsInCircle(list, [{ kind: 'whole' }]);
  const wanted = await wantedRecords(list);
  const before = await list.distinctKeys();
  if (isWhole(before, wanted, circled)) return;
  const pageSize = Math.max(list.pageSize(), wanted ?? 0);
  circled = await endsInCircle(list, [{ kind: 'again' }], { pageSize });
  const after = await list.total();
  const least = after === null || wanted === null ? null : Math.min(after, list.totalAtStart ?? wanted);
  const distinct = await list.distinctKeys();
  list.missed(distinct - before);
  if (isWhole(distinct, least, circled)) return;
  const figures =
    least !== null && distinct > least
      ? `${distinct} members, more than its total of ${least}, and page tokens that lead nowhere`
      : `${distinct} members of ${least ?? 'an unknown number'}`;
  throw new CdsyncError(`${list.label} brought ${figures}, even in one large page`, {
    code: 'members_incomplete',
    hint:
      'the last snapshot stays; run again. If it happens again, the service gives fewer members than it counts: ' +
      'ask its operator for a larger `limit` for this list, or make smaller segments',
  });
}

/** Whether members are all. A total far below their number proves nothing about those behind tokens that lead nowhere. */
function isWhole(count: number, total: number | null, circled: boolean): boolean {
  if (total === null) return !circled;
  return count >= total && !(circled && count > total + Math.max(10, count / 100));
}

/** Reads partitions. Returns whether a chain ended because its tokens lead nowhere. */
async function endsInCircle(list: CountedRead, ...reading: Parameters<CountedRead['read']>): Promise<boolean> {
  try {
    await list.read(...reading);
    return false;
  } catch (error) {
    if (error instanceof CdsyncError && (error.code === 'page_loop' || error.code === 'dead_token')) return true;
    throw error;
  }
}

/** The larger of the totals before and after; null if one of them is unknown. */
async function wantedRecords(list: CountedRead): Promise<number | null> {
  const after = await list.total();
  return after === null || list.totalAtStart === null ? null : Math.max(after, list.totalAtStart);
}

import { CdsyncError } from '../core/errors.js';
import type { Partition } from './partition.js';

/** A list that is held against its own total. */
export interface CountedList {
  /** `GET /indexes/{id}/profiles` */
  readonly label: string;
  /** The endpoint may give page tokens that lead nowhere. */
  readonly distrustsTokens: boolean;
  /** Whether fewer records than the total fail the stream. */
  readonly checkTotal: boolean;
  /** Before the reading; null where the service gave none. */
  readonly totalAtStart: number | null;
  /** What reads it completely, if nothing is left out. */
  readonly partitions: readonly Partition[];
  /** Records that a page may have, as far as is known. */
  pageSize(): number;
  /** What the service says now; null where it says nothing. */
  total(): Promise<number | null>;
  /** Reads partitions to their last page. */
  read(partitions: readonly Partition[], pageSize?: number): Promise<void>;
  /** Different keys that came so far. */
  distinctKeys(): Promise<number>;
}

/**
 * Reads a list so that what came is held against its total, which is asked for before and after. What the total says is
 * missing is looked for in one more reading of the whole list.
 * @throws {CdsyncError} `total_mismatch`, `members_incomplete`, and what reading throws
 */
export async function readCounted(list: CountedList): Promise<void> {
  if (list.distrustsTokens) return readByTotal(list);
  await list.read(list.partitions);
  await complete(list);
}

/** Partitions may leave records out (the attribute missing, a value not listed), so their union is counted. */
async function complete(list: CountedList): Promise<void> {
  const isPartitioned = list.partitions[0]?.kind !== 'whole';
  const wanted = await wantedRecords(list);
  const came = await list.distinctKeys();
  // Some may have been deleted meanwhile; a total that is far too small says nothing of what the partitions leave out.
  const most = isPartitioned ? (wanted ?? 0) + Math.max(10, came / 100) : Number.POSITIVE_INFINITY;
  if (wanted !== null && came >= wanted && came <= most) return;
  await list.read([{ kind: isPartitioned ? 'whole' : 'again' }]);
  if (!list.checkTotal) return;
  const found = await list.distinctKeys();
  const least = Math.min(list.totalAtStart ?? 0, (await list.total()) ?? 0);
  if (found >= least) return;
  throw new CdsyncError(`the list has ${least} records by its own total, but ${found} came, also on a second reading`, {
    code: 'total_mismatch',
    hint: 'the service withholds records; run again, or set `check_total: false` if its totals are known to be wrong',
  });
}

/** Reads a list whose page tokens may lead back to its start: the second time in one page that is large enough. */
async function readByTotal(list: CountedList): Promise<void> {
  let circled = await endsInCircle(list, [{ kind: 'whole' }]);
  const wanted = await wantedRecords(list);
  if (wanted === null ? !circled : (await list.distinctKeys()) >= wanted) return;
  circled = await endsInCircle(list, [{ kind: 'again' }], Math.max(list.pageSize(), wanted ?? 0));
  const after = await list.total();
  const least = after === null || wanted === null ? null : Math.min(after, list.totalAtStart ?? wanted);
  const found = await list.distinctKeys();
  if (least === null ? !circled : found >= least) return;
  throw new CdsyncError(
    `${list.label} brought ${found} members of ${least ?? 'an unknown number'}, also in one large page`,
    {
      code: 'members_incomplete',
      hint: 'the last snapshot stays; run again, and report it to the service if it stays so',
    },
  );
}

/** Whether the chains were given up because their tokens lead nowhere. */
async function endsInCircle(list: CountedList, partitions: readonly Partition[], pageSize?: number): Promise<boolean> {
  try {
    await list.read(partitions, pageSize);
    return false;
  } catch (error) {
    if (error instanceof CdsyncError && (error.code === 'page_loop' || error.code === 'dead_token')) return true;
    throw error;
  }
}

/** The larger of the totals before and after; null where one of them is not known. */
async function wantedRecords(list: CountedList): Promise<number | null> {
  const after = await list.total();
  return after === null || list.totalAtStart === null ? null : Math.max(after, list.totalAtStart);
}

import type { TableConnector, TableDestination } from '../../sdk/destination.js';
import type { StreamTask } from '../delivery.js';
import type { PieceData } from '../load-data.js';
import type { TablePlan } from './plan.js';
import { comparedColumns, expectedSum } from './read-back.js';
import type { TableRecord } from './record.js';
import { targetColumn } from './target-columns.js';

/** Whether the whole table must be looked at. @param now in milliseconds since 1970 */
export function isDue(
  { verified_at, delivered_at }: TableRecord,
  {
    verifyEvery,
    verify,
    isAsked,
  }: { readonly verifyEvery: number | undefined; readonly verify: 'rows' | 'none'; readonly isAsked: boolean },
  now: number,
): boolean {
  if (isAsked) return true;
  if (verify === 'none' || verifyEvery === undefined) return false;
  const age = now - Date.parse(verified_at ?? delivered_at);
  // A time in the future is of a clock that was wrong.
  return age >= verifyEvery || age < 0;
}

/** What a look at the whole table has found. */
export type Look =
  | { readonly type: 'same' }
  | { readonly type: 'unknown' }
  | { readonly type: 'different'; readonly how: string };

interface LookTask {
  readonly task: StreamTask<TableConnector>;
  readonly destination: TableDestination;
  readonly plan: TablePlan;
  readonly record: TableRecord;
  /** All rows of the snapshot, with the values that the table cannot hold as NULL. */
  readonly data: PieceData;
}

/** Whether the table has rows that the snapshot lacks, as its record says: no sum over its rows can be compared then. */
export function hasOtherRows(
  { request: { destination }, feed }: StreamTask<TableConnector>,
  record: TableRecord,
): boolean {
  return destination.mode === 'append' || (destination.mode === 'upsert' && record.rows > feed.rows);
}

/**
 * Compares the whole table with the snapshot, by a sum of a hash of every row. `unknown` if it cannot be compared, because it is at
 * another snapshot, or has rows that this one lacks.
 */
export async function lookAtWholeTable({ task, destination, plan, record, data }: LookTask): Promise<Look> {
  const { request, feed } = task;
  const { mode, deletes } = request.destination;
  if (record.sequence !== feed.sequence || record.run_id !== feed.run_id) return { type: 'unknown' };
  const columns = comparedColumns(plan.columns).filter(({ isTracked }) => isTracked);
  const isSoft = mode === 'mirror' && deletes === 'soft';
  const found = await destination.sums(plan.table.name, columns.map(targetColumn), isSoft);
  const expected = await expectedSum(data, plan.columns, found.hashed);
  if (mode === 'upsert' && found.rows > expected.rows) return { type: 'unknown' };
  if (found.rows !== expected.rows)
    return { type: 'different', how: `it has ${found.rows} rows, the snapshot ${expected.rows}` };
  if (BigInt(found.sum) === expected.sum) return { type: 'same' };
  return { type: 'different', how: 'values were edited, or are in other rows' };
}

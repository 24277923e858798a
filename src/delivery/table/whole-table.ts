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

interface LookTask {
  readonly task: StreamTask<TableConnector>;
  readonly destination: TableDestination;
  readonly plan: TablePlan;
  readonly record: TableRecord;
  /** All rows of the snapshot, with the values that the table cannot hold as NULL. */
  readonly data: PieceData;
}

/**
 * Compares the whole table with the snapshot, by a sum of a hash of every row: in how it differs, in words; undefined if it does not,
 * or if it cannot be compared, because it has other rows too.
 */
export async function wholeTableDiffers({
  task,
  destination,
  plan,
  record,
  data,
}: LookTask): Promise<string | undefined> {
  const { request, feed } = task;
  const { mode, deletes } = request.destination;
  if (record.sequence !== feed.sequence || record.run_id !== feed.run_id || mode === 'append') return undefined;
  const columns = comparedColumns(plan.columns).filter(({ isTracked }) => isTracked);
  const isSoft = mode === 'mirror' && deletes === 'soft';
  const found = await destination.sums(plan.table.name, columns.map(targetColumn), isSoft);
  const expected = await expectedSum(data, plan.columns, found.hashed);
  // A table of mode upsert has rows that the snapshot lacks; without any, it can be compared.
  if (mode === 'upsert' && found.rows > expected.rows) return undefined;
  if (found.rows !== expected.rows) return `it has ${found.rows} rows, the snapshot ${expected.rows}`;
  return BigInt(found.sum) === expected.sum ? undefined : 'values were edited, or are in other rows';
}

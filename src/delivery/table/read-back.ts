import { CdsyncError } from '../../core/errors.js';
import { formatCount, formatCounted } from '../../core/quantities.js';
import type { TableConnector, TableDestination } from '../../sdk/destination.js';
import type { ReadBack } from '../../sdk/load.js';
import { canonicalText, type Digest, duckdbHashing, rowNumber } from '../../sdk/sql/row-sum.js';
import type { Row } from '../../storage/duckdb.js';
import type { DeliveryRequest, StreamTask } from '../delivery.js';
import { handedOver } from '../handover.js';
import type { PieceData } from '../load-data.js';
import { type DeliveredColumn, targetColumn } from './columns.js';
import type { TablePlan } from './plan.js';
import type { TableRecord } from './record.js';

/** The text by which a column's value is compared with the one at the destination. */
function comparedText(column: DeliveredColumn): string {
  // Where JSON is handed over as text, a destination may have kept that text.
  if (column.mapping.as === 'JSON') return `(${handedOver(column)})::VARCHAR`;
  return canonicalText(column.value, column.type);
}

/** Columns that are compared: those of the key first, so that a value in another row is another sum. */
function comparedColumns(columns: readonly DeliveredColumn[]): DeliveredColumn[] {
  const compared = columns.filter(({ path, name }) => path !== undefined || name === '_op' || name === '_run_id');
  return [...compared.filter(({ isKey }) => isKey), ...compared.filter(({ isKey }) => !isKey)];
}

/** SQL of the aggregates over rows with columns `c0`, `c1` …: `n`, the sum of the whole rows, and `s0`, `s1` … of each column. */
function sumsSql(indexes: readonly number[], perColumn: boolean, digest: Digest | undefined): string {
  const hashing = duckdbHashing(digest);
  const sum = (of: readonly number[]) =>
    hashing.sum(
      rowNumber(
        hashing,
        of.map((index) => `c${index}`),
      ),
    );
  const sums = perColumn ? indexes.map((index) => `${sum([index])} AS s${index}`) : [];
  return ['count(*) AS n', `${indexes.length === 0 ? "'0'" : sum(indexes)} AS s`, ...sums].join(', ');
}

/** Figures of rows, added up over pieces. */
class Total {
  rows = 0;
  sum = 0n;
  readonly each = new Map<number, bigint>();

  add(row: Row, indexes: readonly number[]): void {
    this.rows += Number(row.n);
    this.sum += BigInt(String(row.s));
    for (const index of indexes) {
      const sum = row[`s${index}`];
      if (sum !== undefined) this.each.set(index, (this.each.get(index) ?? 0n) + BigInt(String(sum)));
    }
  }
}

/** The question if more rows than were sent have the keys of these. */
const doubled = 'has another program added rows with the same key, which a primary key forbids?';

function differs(
  { stream, table, isRolledBack }: ReadBackTask,
  what: string,
  question = 'does its type there, a trigger, a generated column or another program change it?',
): CdsyncError {
  const outcome = isRolledBack ? 'Nothing of this load was kept' : 'The next delivery loads the rows again';
  return new CdsyncError(`table "${table}" is not as it was written: ${what}`, {
    code: 'delivery_differs',
    stream,
    hint: `${question} ${outcome}. verify: none leaves out the comparison`,
  });
}

/** The columns whose sums differ. @param names of all columns, in the order of the sums */
function differing(names: readonly string[], expected: Total, actual: ReadonlyMap<string, string>): string[] {
  const sums = [...expected.each.values()];
  return names.filter((name, index) => actual.has(name) && BigInt(actual.get(name) ?? 0) !== (sums[index] ?? 0n));
}

/** The error for columns whose values differ; none if their values are in other rows. */
function valuesDiffer(task: ReadBackTask, names: readonly string[]): CdsyncError {
  if (names.length === 0) return differs(task, 'values are in other rows');
  const inexact = names.filter((name) => task.accepted?.includes(name));
  const question = `${inexact.map((name) => `"${name}"`).join(', ')} has a type that --adopt cannot accept, because it rounds values: change it back, or cdsync push --recreate drops the table and loads it.`;
  const what = `values of ${names.map((name) => `"${name}"`).join(', ')}`;
  return differs(task, what, inexact.length > 0 ? question : undefined);
}

interface ReadBackTask {
  readonly stream: string;
  readonly table: string;
  readonly columns: readonly DeliveredColumn[];
  readonly data: PieceData;
  /** Number of rows that the table must have after a reload, those left out for their key not counted; undefined: it may have more. */
  readonly live: () => number | undefined;
  /** Whether the load is rolled back if the rows differ. */
  readonly isRolledBack: boolean;
  /** Columns whose types a person has altered, and `--adopt` has accepted. */
  readonly accepted?: readonly string[];
}

/** The figures of rows that were handed over. @param names of the columns that are compared, in order */
async function expectedSum(
  data: PieceData,
  columns: readonly DeliveredColumn[],
  { names, digest, each = false }: { names: readonly string[]; digest: Digest | undefined; each?: boolean },
): Promise<Total> {
  const indexes = names.map((name) => columns.findIndex((column) => column.name === name));
  const total = new Total();
  for await (const row of data.expected(sumsSql(indexes, each, digest), comparedText)) total.add(row, indexes);
  return total;
}

function settled<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

/** The comparison of the written rows with those that were handed over: by the sum of a hash of every row. */
export function readBackOf(task: ReadBackTask): ReadBack {
  const { columns: all, data, live } = task;
  const columns = comparedColumns(all);
  return {
    columns: columns.map(targetColumn),
    check: async (names, find, digest) => {
      // Two engines do most of the work of a comparison: neither waits for the other.
      const [sums, rows] = await Promise.allSettled([expectedSum(data, all, { names, digest }), find()]);
      const [expected, actualRows] = [settled(sums), settled(rows)];
      const wanted = live();
      if (actualRows.rows !== expected.rows)
        throw differs(
          task,
          `it has ${formatCounted(actualRows.rows, 'row')}, and ${formatCount(expected.rows)} were sent`,
          actualRows.rows > expected.rows && all.some(({ isKey }) => isKey) ? doubled : undefined,
        );
      if (actualRows.left > 0) throw differs(task, `it still has ${formatCounted(actualRows.left, 'deleted row')}`);
      if (wanted !== undefined && actualRows.live !== undefined && actualRows.live !== wanted)
        throw differs(task, `it has ${formatCounted(actualRows.live, 'row')}, the snapshot ${formatCount(wanted)}`);
      if (actualRows.differing.length > 0) throw valuesDiffer(task, actualRows.differing);
      if (BigInt(actualRows.sum) === expected.sum) return;
      const total = await expectedSum(data, all, { names, digest, each: true });
      throw valuesDiffer(task, differing(names, total, await actualRows.sums()));
    },
  };
}

/** Whether the whole table must be looked at. @param nowMs in milliseconds since 1970 */
export function isDue(
  { verified_at, delivered_at }: TableRecord,
  request: Pick<DeliveryRequest, 'destination' | 'verify'>,
  nowMs: number,
): boolean {
  const { verify, verifyEvery } = request.destination;
  if (request.verify) return true;
  if (verify === 'none' || verifyEvery === undefined) return false;
  const age = nowMs - Date.parse(verified_at ?? delivered_at);
  // A time in the future is of a clock that was wrong.
  return age >= verifyEvery || age < 0;
}

/** The result of a look at the whole table. @param uncompared columns whose texts the database cannot give */
export type TableComparison =
  | { readonly type: 'same'; readonly uncompared: readonly string[] }
  | { readonly type: 'unknown' }
  | { readonly type: 'different'; readonly how: string; readonly uncompared: readonly string[] };

interface ComparisonOptions {
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
export async function compareWholeTable({
  task,
  destination,
  plan,
  record,
  data,
}: ComparisonOptions): Promise<TableComparison> {
  const { request, feed } = task;
  const { mode, deletes } = request.destination;
  if (record.sequence !== feed.sequence || record.run_id !== feed.run_id) return { type: 'unknown' };
  const columns = comparedColumns(plan.columns).filter(({ isTracked }) => isTracked);
  const isSoft = mode === 'mirror' && deletes === 'soft';
  const actualSums = await destination.sums(plan.table.name, columns.map(targetColumn), isSoft);
  const uncompared = columns.map(({ name }) => name).filter((name) => !actualSums.hashed.includes(name));
  const expected = await expectedSum(data, plan.columns, { names: actualSums.hashed, digest: actualSums.digest });
  if (mode === 'upsert' && actualSums.rows > expected.rows) return { type: 'unknown' };
  if (actualSums.rows !== expected.rows)
    return {
      type: 'different',
      how: `it has ${formatCounted(actualSums.rows, 'row')}, the snapshot ${formatCount(expected.rows)}`,
      uncompared,
    };
  if (BigInt(actualSums.sum) === expected.sum) return { type: 'same', uncompared };
  return { type: 'different', how: 'values were edited, or are in other rows', uncompared };
}

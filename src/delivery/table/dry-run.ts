import type { TableConnector } from '../../sdk/destination.js';
import type { PlannedRequests } from '../../sdk/planned-requests.js';
import type { StreamTask } from '../delivery.js';
import type { PieceData } from '../load-data.js';
import { leftOutReason, type TablePlan } from './plan.js';

/** The plan of a delivery, as data: `cdsync push --dry-run --json`. */
export interface PlannedDelivery {
  /** Null where a stream goes as records. */
  readonly table: string | null;
  /** The table as it is, or the records that were sent; null if there are none. */
  readonly there: {
    readonly generation: number | null;
    readonly sequence: number | null;
    /** Null if it is not known. */
    readonly rows: number | null;
    readonly delivered_at: string | null;
  } | null;
  readonly action: 'nothing' | 'increment' | 'append' | 'reload' | 'create' | 'export' | 'refused';
  readonly why: string;
  readonly generation: number | null;
  readonly drops: boolean;
  readonly add: readonly { readonly column: string; readonly type: string }[];
  readonly widen: readonly { readonly column: string; readonly type: string }[];
  /** Columns that get a value in every row. */
  readonly fill: readonly string[];
  /** Columns that lose their values in rows that the snapshot lacks. */
  readonly clear: readonly string[];
  /** About how many rows that concerns. */
  readonly clear_rows: number;
  readonly erase: number;
  readonly rows: { insert: number; update: number; delete: number };
  /** The files that would be written; their bytes are an estimate, before compression and encryption. */
  readonly files?: readonly { readonly name: string; readonly rows: number; readonly bytes: number }[];
  /** The requests that a destination of records would get. */
  readonly requests?: PlannedRequests;
  /** Values that the destination cannot hold, by column and reason. */
  readonly refused: readonly { readonly column: string; readonly reason: string; readonly values: number }[];
}

/** The plan of a delivery that goes to no table. */
export const withoutTable = {
  table: null,
  generation: null,
  drops: false,
  add: [],
  widen: [],
  fill: [],
  clear: [],
  clear_rows: 0,
  erase: 0,
  refused: [],
} satisfies Partial<PlannedDelivery>;

/** Columns that unchanged rows need other values in. */
function filledColumns({ record, next, decision }: TablePlan): string[] {
  if (decision.action !== 'reload' || record === undefined) return [];
  return [...next.map].flatMap(([path, { target, variant, rule, stream_type, kind }]) => {
    const before = record.map.get(path);
    if (target === null) return [];
    const isSame =
      before?.target === target && before.rule === rule && before.stream_type === stream_type && before.kind === kind;
    return isSame ? [] : [target, ...(variant === null ? [] : [variant])];
  });
}

/** @param data the rows that would be sent */
export async function plannedDelivery(
  { feed, request, connector }: StreamTask<TableConnector>,
  plan: TablePlan,
  data: PieceData,
): Promise<PlannedDelivery> {
  const { decision, record, found, change, generation } = plan;
  data.assume();
  const isAppend = request.destination.mode === 'append';
  const rows = await data.operations();
  const action = decision.action === 'adopt' ? 'nothing' : decision.action;
  const { generation: recorded = null, sequence = null, delivered_at = null } = record ?? {};
  return {
    table: plan.table.name,
    there: found === undefined ? null : { generation: recorded, sequence, rows: found.rows, delivered_at },
    action: isAppend && (action === 'increment' || action === 'reload') ? 'append' : action,
    why: decision.why,
    generation,
    drops: change.drop,
    add: change.add.map(({ name: column, type }) => ({ column, type })),
    widen: change.widen.map(({ name: column, type }) => ({ column, type })),
    fill: filledColumns(plan),
    clear: plan.clear,
    clear_rows:
      plan.clear.length === 0 ? 0 : isAppend ? (found?.rows ?? 0) : Math.max(0, (found?.rows ?? 0) - feed.rows),
    erase: decision.erase.length,
    rows,
    refused: [
      ...plan.leftOut.map((column) => ({ column, reason: leftOutReason(connector), values: feed.rows })),
      ...(await data.refusedValues()),
    ],
  };
}

import { rowKey } from '../../columns/row-hash.js';
import type { TableConnector } from '../../sdk/destination.js';
import type { Load, Write } from '../../sdk/load.js';
import { canonicalText } from '../../sdk/sql/row-sum.js';
import type { StreamTask } from '../delivery.js';
import type { Reject } from '../delivery-state.js';
import type { ExportColumns } from '../handover.js';
import type { LoadChunk } from '../input.js';
import type { PieceData } from '../load-data.js';
import { textTable } from '../text-table.js';
import { type NextRecordTask, nextRecord } from './next-record.js';
import { stateKey, type TablePlan } from './plan.js';
import { readBackOf } from './read-back.js';
import { recordText } from './record.js';

/** How the rows of a delivery are handed over. @param refused values that the destination is known to refuse: queries of their keys, by column */
export function handoverOf(
  { connector, request, feed }: StreamTask<TableConnector>,
  plan: Pick<TablePlan, 'columns' | 'write'>,
  refused?: ReadonlyMap<string, string>,
): ExportColumns {
  const { mode, deletes } = request.destination;
  const text = { kind: 'text' } as const;
  const op = connector.mapColumn(text, { name: '_op', type: text, duckdbType: 'VARCHAR' });
  return {
    columns: plan.columns,
    opType: plan.write === 'merge' ? op.type : undefined,
    key: feed.key,
    marksDeletes: deletes === 'soft' && mode === 'mirror',
    needsKey: mode !== 'append',
    keyBytes: connector.capabilities.keyBytes,
    ...(refused === undefined ? {} : { refused }),
  };
}

interface LoadTask extends Omit<NextRecordTask, 'moment'> {
  readonly data: PieceData;
  readonly erase: readonly (readonly string[])[];
}

function writeOf({ write, absent, decision }: TablePlan, { feed }: StreamTask<TableConnector>): Write {
  if (write === 'fill') return { type: 'fill' };
  if (write === 'merge') return { type: 'merge', absent, isReload: decision.action === 'reload' };
  return { type: 'append', runs: [...new Set([...feed.changes.map(({ run_id }) => run_id), feed.run_id])] };
}

/** Columns that have another type than a load has left them with. */
function alteredNames({ found: existingTable, record }: TablePlan): string[] {
  const altered = existingTable?.columns.filter(({ name, type }) => (record?.columns.get(name) ?? type) !== type);
  return altered?.map(({ name }) => name) ?? [];
}

/** The load that carries a plan out. */
export function loadOf({ task, plan, data, erase, erased, kept }: LoadTask): Load {
  const { request, feed, context } = task;
  const { mode, verify } = request.destination;
  const moment = new Date(context.clock.now()).toISOString();
  const next = nextRecord({ task, plan, moment, erased, kept });
  // Rows that are not in the table because their key cannot be held were never handed over.
  const live =
    mode === 'mirror' || mode === 'replace' ? () => feed.rows - (data.rows - data.handedOver) : () => undefined;
  const isRolledBack = task.connector.capabilities.transactions !== false;
  const accepted = request.adopt ? alteredNames(plan) : [];
  const { name: table } = plan.table;
  const readBack = { stream: feed.stream, table, columns: plan.columns, data, live, isRolledBack, accepted };
  return {
    state: stateKey(task),
    table: plan.table,
    before: plan.state.own,
    intent: recordText(next.intent),
    change: plan.change,
    write: writeOf(plan, task),
    empty: plan.empty,
    clear: plan.clear,
    erase,
    // Where a load is rolled back, its rows name none.
    undo: plan.columns.some(({ name }) => name === '_cdsync_load') ? plan.record?.pending?.load : undefined,
    supersedes: plan.state.others,
    data,
    readBack: verify === 'none' ? undefined : readBackOf(readBack),
    id: next.id,
    isReload: plan.decision.action === 'reload',
    moment,
    rows: plan.found?.rows ?? 0,
    finish: (outcome) => next.finish(outcome, data),
    ...(task.inTurn === undefined ? {} : { inTurn: task.inTurn }),
    signal: context.signal,
  };
}

/** The keys, as texts, that rows of the pieces have. */
async function keysAmong(
  { session, feed }: StreamTask<TableConnector>,
  pieces: readonly LoadChunk[],
  keys: readonly string[],
): Promise<Set<string>> {
  const found = new Set<string>();
  if (keys.length === 0) return found;
  const key = rowKey(feed.key);
  const wanted = await textTable(session, keys);
  for (const { query } of pieces) {
    const matchingKeys = `SELECT DISTINCT ${key} AS key FROM (${query}) WHERE ${key} IN (${wanted})`;
    for (const row of await session.rows(matchingKeys)) found.add(String(row.key));
  }
  return found;
}

/** Keys to erase, each as the texts by which its columns are compared: those that the snapshot does not have again. */
export async function erasedKeys(
  task: StreamTask<TableConnector>,
  { columns, table }: Pick<TablePlan, 'columns' | 'table'>,
  snapshot: readonly LoadChunk[],
  keys: readonly string[],
): Promise<string[][]> {
  const existingNames = await keysAmong(task, snapshot, keys);
  const gone = [...new Set(keys)].filter((key) => !existingNames.has(key));
  if (gone.length === 0) return [];
  const isSingle = task.feed.key.length === 1;
  const part = (index: number) => (isSingle ? 'text' : `text ->> '$[${index}]'`);
  const compared = table.key.map((name, index) => {
    const column = columns.find((column) => column.name === name);
    if (column === undefined || column.type.kind === 'text') return part(index);
    return `coalesce(${canonicalText(`TRY_CAST(${part(index)} AS ${column.duckdbType})`, column.type)}, ${part(index)})`;
  });
  const rows = await task.session.rows(
    `SELECT to_json([${compared.join(', ')}])::VARCHAR AS texts FROM (${await textTable(task.session, gone)})`,
  );
  // No row with a key that the table cannot hold was ever there.
  const holdsNul = table.key.map(
    (name) => columns.find((column) => column.name === name)?.mapping.limits?.nul !== 'refused',
  );
  const texts = rows.map((row) => JSON.parse(String(row.texts)) as string[]);
  return texts.filter((key) => key.every((text, index) => holdsNul[index] || !text.includes('\0')));
}

/** Of values that could not be held, those whose rows were not sent again, and are not erased. */
export async function unsentRejects(
  task: StreamTask<TableConnector>,
  before: readonly Reject[],
  pieces: readonly LoadChunk[],
  erased: readonly string[],
): Promise<Reject[]> {
  const keys = before.flatMap(({ key }) => (key === null ? [] : [key]));
  const sent = await keysAmong(task, pieces, keys);
  const gone = new Set(erased);
  return before.filter(({ key }) => key !== null && !sent.has(key) && !gone.has(key));
}

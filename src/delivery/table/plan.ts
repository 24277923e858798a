import { tableName } from '../../config/destination-config.js';
import { CdsyncError } from '../../core/errors.js';
import type { TableConnector, TableTypes } from '../../sdk/destination.js';
import type { FoundTable, StateKey, TableChange, TableState, TargetTable, Write } from '../../sdk/load.js';
import type { Erasure } from '../../storage/erasures.js';
import type { StreamTask } from '../delivery.js';
import { TargetNames } from '../target-names.js';
import { beginAgain, keyChanged, type NextMap, nextMap } from './column-map.js';
import {
  type DeliveredColumn,
  declaredTarget,
  keyPaths,
  mappedColumns,
  type OwnColumn,
  ownColumns,
  ownDelivered,
  type SourceColumn,
  targetColumn,
  wantedColumns,
} from './columns.js';
import { type Decision, decide, keepsAbsent, type Situation, withMap } from './decide.js';
import { mapTask } from './map-task.js';
import { assertDistinctNames } from './name-clashes.js';
import { parseRecord, type TableRecord } from './record.js';

/** Everything that a delivery of one stream to its table will do. */
export interface TablePlan {
  readonly decision: Decision;
  readonly record: TableRecord | undefined;
  readonly state: TableState;
  readonly found: FoundTable | undefined;
  readonly next: NextMap;
  readonly table: TargetTable;
  /** The columns of the rows that are handed over. */
  readonly columns: readonly DeliveredColumn[];
  readonly change: TableChange;
  readonly write: 'fill' | 'append' | 'merge';
  readonly absent: Extract<Write, { readonly type: 'merge' }>['absent'];
  /** All rows of the snapshot are handed over. */
  readonly isEverything: boolean;
  /** Changes after this snapshot are handed over; undefined if all rows are, or none. */
  readonly since: number | undefined;
  readonly empty: readonly string[];
  readonly clear: readonly string[];
  /** Columns of the stream beyond the most that the table may have. */
  readonly leftOut: readonly string[];
  readonly generation: number;
}

interface PlanInput {
  readonly task: StreamTask<TableConnector>;
  readonly types: TableTypes;
  readonly state: TableState;
  readonly found: FoundTable | undefined;
  readonly erasures: readonly Erasure[];
  /** How many values the job's folder lists that the table cannot hold. */
  readonly listed: number;
  /** Why all rows must be loaded whatever the record says. */
  readonly again: string | undefined;
  /** Columns of the table whose types the destination has refused to change. */
  readonly fixed: ReadonlySet<string>;
  /** Columns that loads have added to the table, if its record may not know all of them. */
  readonly added: readonly string[];
}

/** The table that a stream is delivered to, by the destination's rules for names. */
export function targetName({ request, context, feed, connector }: StreamTask<TableConnector>): string {
  const names = new TargetNames(connector.capabilities.identifiers);
  return names.give(tableName(request.destination.table, context.layout.job, feed.stream));
}

export function stateKey(task: StreamTask<TableConnector>): StateKey {
  return { destination: task.request.destination.name, stream: task.feed.stream, table: targetName(task) };
}

function situationOf(input: PlanInput, record: TableRecord | undefined): Situation {
  const { state, task } = input;
  const { request, context, feed } = task;
  const { mode, deletes } = request.destination;
  const [other] = state.others;
  const owner = other && `stream "${other.stream}" of destination "${other.destination}"`;
  const from = { table: targetName(task), job: context.layout.job, key: keyPaths(feed) };
  return { ...input, ...from, mode, deletes, feed, flags: request, newStorage: request.newStorage, record, owner };
}

/** Columns that cdsync has in the table beside those of the map, and those of a mode before, which stay empty. */
function ownOf(
  { task, types, found }: PlanInput,
  record: TableRecord | undefined,
): { readonly wanted: OwnColumn[]; readonly missing: OwnColumn[]; readonly left: string[] } {
  const { request, connector, feed } = task;
  const wanted = ownColumns(request.destination, connector.capabilities.transactions === false);
  const ours = new Set([...(record?.columns.keys() ?? []), ...(record?.pending?.added ?? []).map(([name]) => name)]);
  const existingTypes = new Map((found?.columns ?? []).map(({ name, type }) => [name, type]));
  for (const column of wanted) {
    const { type } = targetColumn(ownDelivered(types, column));
    if (!existingTypes.has(column.name) || ours.has(column.name) || existingTypes.get(column.name) === type) continue;
    throw new CdsyncError(`column "${column.name}" of table "${targetName(task)}" is not from cdsync`, {
      code: 'table_not_ours',
      stream: feed.stream,
      hint: 'rename it there, or give the stream another table with `table:`',
    });
  }
  const missing = wanted.filter(({ name }) => !existingTypes.has(name));
  const left = ['_deleted_at'].filter(
    (name) => ours.has(name) && existingTypes.has(name) && !wanted.some((column) => column.name === name),
  );
  return { wanted, missing, left };
}

/** Recorded columns that the table lacks, because others have dropped them. */
function lackingColumns({ lacking }: Decision, { map, retired }: NextMap): { name: string; kind: string }[] {
  const kinds = new Map(retired);
  for (const { target, kind, variant } of map.values()) {
    if (target !== null) kinds.set(target, kind);
    if (variant !== null) kinds.set(variant, 'VARCHAR');
  }
  return lacking.flatMap((name) => (kinds.has(name) ? [{ name, kind: kinds.get(name) as string }] : []));
}

/** Columns that rows outside of the snapshot may no longer have values in. */
function clearedColumns(
  next: NextMap,
  { copyOf, action }: Decision,
  sources: readonly SourceColumn[],
  isAppend: boolean,
): string[] {
  const isWhole = action === 'reload' || isAppend;
  if (!isWhole) return [];
  const older = sources.flatMap(({ path, isKey, isHidden }) => {
    const entry = next.map.get(path);
    if (copyOf === undefined || isKey || entry === undefined || entry.target === null) return [];
    // If the age of rows is not known, only columns that a rule hides now are certainly too old.
    const isOlder = copyOf < 0 ? isHidden : entry.since > copyOf;
    return isOlder ? [entry.target, ...(entry.variant === null ? [] : [entry.variant])] : [];
  });
  const retired = isAppend && copyOf === undefined && next.clear.length === 0 ? [] : [...next.retired.keys()];
  return [...new Set([...next.clear, ...older, ...retired])];
}

/** The columns of the stream that go to the table, and cdsync's own beside them. */
interface PlannedColumns {
  readonly own: ReturnType<typeof ownOf>;
  readonly sources: readonly SourceColumn[];
  readonly leftOut: readonly string[];
}

function plannedColumns(input: PlanInput, record: TableRecord | undefined): PlannedColumns {
  const { feed, request, connector } = input.task;
  const helpers = ownOf(input, record);
  const wanted = wantedColumns(feed, request.destination.columns);
  const rules = connector.capabilities.identifiers ?? {};
  assertDistinctNames(wanted, { stream: feed.stream, rules, map: record?.map });
  return { own: helpers, ...withinColumns(wanted, connector, helpers.wanted.length) };
}

/** The columns of the rows that are handed over: cdsync's own are first in a log, and last in a table with keys. */
function orderedColumns({ types }: PlanInput, { own, sources }: PlannedColumns, next: NextMap, isAppend: boolean) {
  const added = own.wanted.map((column) => ownDelivered(types, column));
  const mapped = mappedColumns(types, next.map, sources);
  return isAppend ? [...added, ...mapped] : [...mapped, ...added];
}

/** The changes of the table; a new one has all its columns from the start. */
function changeOf({ types }: PlanInput, { own }: PlannedColumns, next: NextMap, decision: Decision): TableChange {
  const { drops: drop } = decision;
  if (decision.action === 'create') return { drop, create: true, add: [], widen: [] };
  const declared = ({ name, kind }: { name: string; kind: string }) => declaredTarget(types, name, kind);
  const added = [...next.add, ...lackingColumns(decision, next)].map(declared);
  const add = [...own.missing.map((column) => targetColumn(ownDelivered(types, column))), ...added];
  return { drop, create: false, add, widen: next.widen.map(declared) };
}

/**
 * Plans the delivery of a stream to its table, from the state of both at the destination. It sends no request and changes nothing.
 * In this order: the action (from the record, the feed and the table), which column goes where, whether that needs more than
 * was decided, then everything that follows from the two.
 * @throws {CdsyncError} the codes of {@link decide} and {@link nextMap}; `destination_columns`
 */
export function planTable(input: PlanInput): TablePlan {
  const { task, state } = input;
  const { feed, request, connector } = task;
  const isAppend = request.destination.mode === 'append';
  const name = targetName(task);
  const record = state.own && parseRecord(state.own.record, name);

  const situation = situationOf(input, record);
  const decided = decide(situation);
  const isNew = decided.action === 'create';
  // A table that is made from the start continues nothing of the present one.
  const [before, existingTable] = isNew ? [undefined, undefined] : [record, input.found];

  const planned = plannedColumns({ ...input, found: existingTable }, before);
  const { own, sources: columns, leftOut } = planned;
  const sources = { ...input, stream: feed.stream, names: connector.capabilities.identifiers, request, columns };
  const next = nextMap(mapTask({ ...sources, found: input.found, decision: decided, record, own: own.wanted }));
  const decision = withMap(decided, situation, next);

  const ordered = orderedColumns(input, planned, next, isAppend);
  const key = keyTargets(feed.key, columns, next);
  const table: TargetTable = { name, columns: ordered.map(targetColumn), key, isKeyed: !isAppend };
  const isReload = decision.action === 'reload';
  const absent = absentRows(decision, request.destination);
  const clear = isNew ? [] : [...clearedColumns(next, decision, columns, isAppend), ...(isReload ? own.left : [])];
  const change = changeOf(input, planned, next, decision);
  if (!isNew && !isAppend && absent !== 'delete') {
    assertKeyKept(clear, table, feed.stream);
    if (existingTable !== undefined && existingTable.rows > 0) assertKeyThere(change, table, feed.stream);
  }
  return {
    decision,
    record: before,
    state,
    found: existingTable,
    next,
    table,
    columns: ordered,
    absent,
    clear,
    leftOut,
    change,
    write: isNew ? 'fill' : isAppend ? 'append' : 'merge',
    isEverything: isReload || isNew,
    since: decision.action === 'increment' ? (record?.sequence ?? 0) : undefined,
    empty: isAppend ? [] : [...next.retired.keys(), ...own.left],
    generation: nextGeneration(record, decision, next),
  };
}

/** Rows that stay although the snapshot lacks them cannot lose their key. @throws {CdsyncError} `key_changed` */
function assertKeyKept(clear: readonly string[], { name, key }: TargetTable, stream: string): void {
  const column = key.find((name) => clear.includes(name));
  if (column !== undefined)
    throw keyChanged(
      `key column "${column}" of table "${name}" has another rule now, and rows that stay have old keys`,
      stream,
    );
}

/** Rows that stay although the table has lost their key would stand beside the same rows with a key. @throws {CdsyncError} `table_altered` */
function assertKeyThere({ add }: TableChange, { name, key }: TargetTable, stream: string): void {
  const column = key.find((name) => add.some((added) => added.name === name));
  if (column !== undefined)
    throw new CdsyncError(`table "${name}" has no column "${column}", which is the key of its rows`, {
      code: 'table_altered',
      stream,
      hint: `if it was renamed, rename it back; or ${beginAgain}`,
    });
}

function nextGeneration(record: TableRecord | undefined, { action, copyOf }: Decision, next: NextMap): number {
  const before = Math.max(record?.generation ?? 0, copyOf ?? 0);
  return action === 'reload' || action === 'create' || next.why.length > 0 ? before + 1 : Math.max(before, 1);
}

function absentRows({ action }: Decision, { mode, deletes }: Pick<Situation, 'mode' | 'deletes'>): TablePlan['absent'] {
  if (action !== 'reload' || mode === 'upsert') return 'keep';
  if (!keepsAbsent({ mode, deletes })) return 'delete';
  return mode === 'append' ? 'keep' : 'mark';
}

/** The targets of the key's columns, in the key's order. */
function keyTargets(key: readonly string[], sources: readonly SourceColumn[], next: NextMap): string[] {
  return key.map((name) => {
    const path = sources.find((source) => source.name === name)?.path ?? name;
    return next.map.get(path)?.target ?? name;
  });
}

/** Why a column of the stream is left out. */
export function leftOutReason({ capabilities: { maxColumns } }: TableConnector): string {
  return `a table has at most ${maxColumns} columns`;
}

/** Leaves out the columns beyond the most that a table may have. */
function withinColumns(
  sources: readonly SourceColumn[],
  { capabilities: { maxColumns = Number.POSITIVE_INFINITY } }: TableConnector,
  ownCount: number,
): { readonly sources: readonly SourceColumn[]; readonly leftOut: readonly string[] } {
  const wanted = sources.filter(({ isDropped }) => !isDropped);
  const last = new Set(wanted.slice(Math.max(0, maxColumns - ownCount)).filter(({ isKey }) => !isKey));
  return {
    sources: sources.map((source) => (last.has(source) ? { ...source, isDropped: true } : source)),
    leftOut: [...last].map(({ as }) => as),
  };
}

import { tableName } from '../../config/destination-config.js';
import { CdsyncError } from '../../core/errors.js';
import { holdsEverywhere } from '../../sdk/column-type.js';
import type { TableConnector, TableTypes } from '../../sdk/destination.js';
import type {
  FoundTable,
  StateKey,
  TableChange,
  TableState,
  TargetColumn,
  TargetTable,
  Write,
} from '../../sdk/load.js';
import type { Erasure } from '../../storage/erasures.js';
import type { StreamTask } from '../delivery.js';
import { TargetNames } from '../target-names.js';
import { keyChanged, type MapTask, type NextMap, nextMap } from './column-map.js';
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
  const from = { table: targetName(task), job: context.layout.job, key: keyPaths(feed), legacy: state.legacy };
  return { ...input, ...from, mode, deletes, feed, flags: request, record, owner };
}

/** Columns that cdsync has in the table beside those of the map, and those of a mode before, which stay empty. */
function ownOf(
  { task, types, found }: PlanInput,
  record: TableRecord | undefined,
): { readonly wanted: OwnColumn[]; readonly missing: OwnColumn[]; readonly left: string[] } {
  const { request, connector, feed } = task;
  const wanted = ownColumns(request.destination, connector.capabilities.transactions === false);
  const ours = new Set([...(record?.columns.keys() ?? []), ...(record?.pending?.added ?? []).map(([name]) => name)]);
  const there = new Map((found?.columns ?? []).map(({ name, type }) => [name, type]));
  for (const column of wanted) {
    const { type } = targetColumn(ownDelivered(types, column));
    if (!there.has(column.name) || ours.has(column.name) || there.get(column.name) === type) continue;
    throw new CdsyncError(`column "${column.name}" of table "${targetName(task)}" is not from cdsync`, {
      code: 'table_not_ours',
      stream: feed.stream,
      hint: 'rename it there, or give the stream another table with `table:`',
    });
  }
  const missing = wanted.filter(({ name }) => !there.has(name));
  const left = ['_deleted_at'].filter(
    (name) => ours.has(name) && there.has(name) && !wanted.some((column) => column.name === name),
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

/** The record with only those changes of an unfinished delivery that it has made. */
function carriedOut(record: TableRecord, found: FoundTable | undefined): TableRecord {
  if (record.pending === null) return record;
  const types = new Map(found?.columns.map(({ name, type }) => [name, type]));
  const added = record.pending.added.filter(([name]) => types.has(name));
  const widened = record.pending.widened.filter(([name]) => types.get(name) !== record.columns.get(name));
  return { ...record, pending: { ...record.pending, added, widened } };
}

/** A table that begins again forgets its columns, and counts its generations on: a copy of the former one stays older. */
function emptied({ generation }: TableRecord): MapTask['before'] {
  return { map: new Map(), retired: new Map(), generation, pending: null };
}

/** The map of a table that an older version loaded in mode `append`, or that is taken over: columns of the same name and type are ours. */
function mapTask(
  input: PlanInput,
  decision: Decision,
  sources: readonly SourceColumn[],
  record: TableRecord | undefined,
  names: TargetNames,
) {
  const { task, types, found } = input;
  const isNew = decision.action === 'create';
  // A record that was never followed by rows is an intent: the first load was cut short.
  const isTakenOver = (record === undefined || record.load === '') && !isNew;
  const there = new Map(isTakenOver ? (found?.columns ?? []).map(({ name, type }) => [name, type]) : []);
  const isTypeOf = types.isTypeOf ?? ((one: string, other: string) => one === other);
  const claims = (name: string, kind: TargetColumn['kind'], isKey: boolean) => {
    const type = there.get(name);
    if (type === undefined || isKey) return type !== undefined;
    return isTypeOf(type, types.mapColumn(kind, { name, type: kind, duckdbType: 'VARCHAR' }).type);
  };
  return {
    before: isNew && record !== undefined ? emptied(record) : record && carriedOut(record, found),
    columns: sources,
    types: { holds: types.holds ?? holdsEverywhere, widens: types.widens ?? (() => false) },
    onTypeChange: task.request.destination.onTypeChange,
    fixed: input.fixed,
    give: (wanted: string) => names.give(wanted),
    claims,
    stream: task.feed.stream,
  };
}

/** Names that the map must not give: columns of others, cdsync's own, and all that the record has. */
function takenNames(
  there: FoundTable | undefined,
  record: TableRecord | undefined,
  own: readonly OwnColumn[],
): string[] {
  const entries = [...(record?.map.values() ?? [])];
  return [
    ...[...own, ...(there?.columns ?? [])].map(({ name }) => name),
    ...entries.flatMap(({ target, variant }) => [target, variant].filter((name) => name !== null)),
    ...(record?.retired.keys() ?? []),
  ];
}

/**
 * Plans the delivery of a stream to its table, from the state of both at the destination. It sends no request and changes nothing.
 * @throws {CdsyncError} the codes of {@link decide} and {@link nextMap}; `destination_columns`
 */
export function planTable(input: PlanInput): TablePlan {
  const { task, types, state, found } = input;
  const { feed, request, connector } = task;
  const { mode, deletes } = request.destination;
  const table = targetName(task);
  const record = state.own && parseRecord(state.own.record, table);
  const situation = situationOf(input, record);
  const decided = decide(situation);
  const isNew = decided.action === 'create';
  const [known, there] = isNew ? [undefined, undefined] : [record, found];
  const own = ownOf({ ...input, found: there }, known);
  const wanted = wantedColumns(feed, request.destination.columns);
  const rules = connector.capabilities.identifiers ?? {};
  assertDistinctNames(wanted, { stream: feed.stream, rules, map: known?.map });
  const { sources, leftOut } = withinColumns(wanted, connector, own.wanted.length);
  const names = new TargetNames(rules, takenNames(there, known, own.wanted));
  const next = nextMap(mapTask(input, decided, sources, record, names));
  const decision = withMap(decided, situation, next);
  const isAppend = mode === 'append';
  const columns = [
    ...own.wanted.map((column) => ownDelivered(types, column)),
    ...mappedColumns(types, next.map, sources),
  ];
  const ordered = isAppend ? columns : [...columns.slice(own.wanted.length), ...columns.slice(0, own.wanted.length)];
  const added = [...next.add, ...lackingColumns(decision, next)];
  const target: TargetTable = {
    name: table,
    columns: ordered.map(targetColumn),
    key: keyTargets(feed.key, sources, next),
    isKeyed: !isAppend,
  };
  const isEverything = decision.action === 'reload' || isNew;
  const absent = absentRows(decision, { mode, deletes });
  const clear = isNew
    ? []
    : [...clearedColumns(next, decision, sources, isAppend), ...(decision.action === 'reload' ? own.left : [])];
  if (!isAppend && absent !== 'delete') refuseClearedKey(clear, target, feed.stream);
  return {
    decision,
    record: known,
    state,
    found: there,
    next,
    table: target,
    columns: ordered,
    change: {
      drop: decision.drops,
      create: isNew,
      add: isNew
        ? []
        : [
            ...own.missing.map((column) => targetColumn(ownDelivered(types, column))),
            ...added.map(({ name, kind }) => declaredTarget(types, name, kind)),
          ],
      widen: isNew ? [] : next.widen.map(({ name, kind }) => declaredTarget(types, name, kind)),
    },
    write: isNew ? 'fill' : isAppend ? 'append' : 'merge',
    absent,
    isEverything: isEverything && decision.action !== 'adopt',
    since: decision.action === 'increment' ? (record?.sequence ?? state.legacy?.sequence ?? 0) : undefined,
    empty: isAppend ? [] : [...next.retired.keys(), ...own.left],
    clear,
    leftOut,
    generation: nextGeneration(record, decision, next),
  };
}

/** Rows that stay although the snapshot lacks them cannot lose their key. @throws {CdsyncError} `key_changed` */
function refuseClearedKey(clear: readonly string[], { name, key }: TargetTable, stream: string): void {
  const column = key.find((each) => clear.includes(each));
  if (column !== undefined)
    throw keyChanged(
      `key column "${column}" of table "${name}" has another rule now, and rows that stay have old keys`,
      stream,
    );
}

function nextGeneration(record: TableRecord | undefined, { action }: Decision, next: NextMap): number {
  const before = record?.generation ?? 0;
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
  own: number,
): { readonly sources: readonly SourceColumn[]; readonly leftOut: readonly string[] } {
  const wanted = sources.filter(({ isDropped }) => !isDropped);
  const last = new Set(wanted.slice(Math.max(0, maxColumns - own)).filter(({ isKey }) => !isKey));
  return {
    sources: sources.map((source) => (last.has(source) ? { ...source, isDropped: true } : source)),
    leftOut: [...last].map(({ as }) => as),
  };
}

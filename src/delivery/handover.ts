import { rowKey } from '../columns/row-hash.js';
import { internalName, quoteIdentifier, sqlText } from '../core/sql.js';
import { isNested, parseColumnType } from '../sdk/column-type.js';
import { jsonText } from '../sdk/json-text.js';
import type { LoadColumn, ValueLimits } from '../sdk/load.js';
import type { DeliveredColumn } from './table/columns.js';

/** How to turn the rows of an input into those for a destination. */
export interface ExportColumns {
  readonly columns: readonly DeliveredColumn[];
  /** Type of the column `_op` (upsert or delete), which is first; undefined if the rows have no such column. */
  readonly opType: string | undefined;
  /** The stream's key columns. */
  readonly key: readonly string[];
  /** Whether deleted rows come as marked rows, not as deletes. */
  readonly marksDeletes: boolean;
  /** Whether rows with a NULL in their key are left out. */
  readonly needsKey: boolean;
  /** Rows whose key columns have more bytes of text, all together, are left out; undefined for no limit. */
  readonly keyBytes: number | undefined;
  /** Values that the destination has refused before, which only it knows: queries of their keys, by column. */
  readonly refused?: ReadonlyMap<string, string>;
}

/** SQL for a column's value in the type in which it is handed over. */
export function handedOver({ value, type, duckdbType, mapping: { as } }: DeliveredColumn): string {
  if (as === undefined || as === duckdbType) return value;
  if (as !== 'JSON') return `(${value})::${as}`;
  return duckdbType === 'JSON' ? `(${value})::VARCHAR` : jsonText(value, type);
}

/** The columns of the rows, in order. */
export function loadColumns({ columns, opType }: ExportColumns): LoadColumn[] {
  const listed = columns.map(({ name, type, duckdbType, mapping }): LoadColumn => {
    const handedOverAs = mapping.as === undefined ? type : parseColumnType(mapping.as);
    return { name, type, duckdbType, targetType: mapping.type, handedOverAs };
  });
  if (opType === undefined) return listed;
  const text = { kind: 'text' } as const;
  return [{ name: '_op', type: text, duckdbType: 'VARCHAR', targetType: opType, handedOverAs: text }, ...listed];
}

/** Whether rows may be deletes; only the key of a delete counts. */
function hasDeletes({ opType, marksDeletes }: ExportColumns): boolean {
  return opType !== undefined && !marksDeletes;
}

/** A value that the destination cannot hold. */
interface Refusal {
  readonly column: string;
  readonly reason: string;
  /** SQL that is true for such a value. */
  readonly when: string;
  /** Whether the reason is U+0000: the search through every text takes longer than all other checks together. */
  readonly isNul?: boolean;
}

/** Dates and timestamps outside the days that the destination supports, including infinite ones. */
function beyondDays(
  { name, type, value }: DeliveredColumn,
  { first, last }: NonNullable<ValueLimits['days']>,
): Refusal[] {
  if (type.kind !== 'date' && type.kind !== 'timestamp') return [];
  const [from, to] = [first, last].map((day) => `DATE ${sqlText(day)}`);
  const when =
    type.kind === 'date'
      ? `(${value} < ${from} OR ${value} > ${to})`
      : `(${value} < ${from}::TIMESTAMPTZ OR ${value} >= (${to} + 1)::TIMESTAMPTZ)`;
  return [{ column: name, reason: `not between ${first} and ${last}`, when }];
}

/** The values that the destination has refused in a column before. */
function refusedBefore({ refused, key }: ExportColumns, column: string): Refusal[] {
  const keys = refused?.get(column);
  return keys === undefined ? [] : [{ column, reason: 'refused before', when: `${rowKey(key)} IN (${keys})` }];
}

/** The reasons that one column's values give. */
function refusalsOf(column: DeliveredColumn): Refusal[] {
  const { limits } = column.mapping;
  if (limits === undefined) return [];
  const refusals = limits.days === undefined ? [] : beyondDays(column, limits.days);
  for (const other of limits.others?.(handedOver(column)) ?? []) refusals.push({ column: column.name, ...other });
  const type = column.mapping.as === undefined ? column.type : parseColumnType(column.mapping.as);
  if (type.kind !== 'text' && type.kind !== 'json') return refusals;
  const value = handedOver(column);
  if (limits.nul === 'refused') {
    const isJson = type.kind === 'json' && (isNested(column.type) || column.type.kind === 'json');
    const when = isJson
      ? `(contains(${value}, '\\u0000') AND regexp_matches(${value}, '(^|[^\\\\])(\\\\\\\\)*\\\\u0000'))`
      : `contains(${value}, chr(0))`;
    refusals.push({ column: column.name, reason: 'the character U+0000 cannot be stored', when, isNul: true });
  }
  if (limits.maxBytes !== undefined) {
    const reason = `longer than ${limits.maxBytes} bytes`;
    refusals.push({ column: column.name, reason, when: `strlen(${value}) > ${limits.maxBytes}` });
  }
  return refusals;
}

/** Why whole rows are left out: their key cannot be held, so no such row can be in the table. */
function keyRefusals(handover: ExportColumns): Refusal[] {
  if (!handover.needsKey) return [];
  const refusals = handover.key.map((name) => ({
    column: name,
    reason: 'the key has no value',
    when: `${quoteIdentifier(name)} IS NULL`,
  }));
  if (handover.keyBytes !== undefined) {
    const length = handover.key.map((name) => `strlen(${quoteIdentifier(name)}::VARCHAR)`).join(' + ');
    const reason = `a key longer than ${handover.keyBytes} bytes`;
    refusals.push({ column: handover.key.at(-1) ?? '', reason, when: `${length} > ${handover.keyBytes}` });
  }
  return [
    ...refusals,
    ...handover.columns
      .filter(({ isKey }) => isKey)
      .flatMap((column) => [...refusalsOf(column), ...refusedBefore(handover, column.name)]),
  ];
}

/** Values that become NULL, by column; of a delete only the key counts. */
function valueRefusals(handover: ExportColumns): Refusal[] {
  const isLive = hasDeletes(handover) ? (when: string) => `(_op <> 'delete' AND ${when})` : (when: string) => when;
  return handover.columns
    .filter(({ isKey }) => !(isKey && handover.needsKey))
    .flatMap((column) => [...refusalsOf(column), ...refusedBefore(handover, column.name)])
    .map((refusal) => ({ ...refusal, when: isLive(refusal.when) }));
}

/** Which refusals a statement looks for: searching every text for U+0000 takes longer than all else. */
export interface Search {
  readonly nul: boolean;
}

function searched(refusals: readonly Refusal[], { nul }: Search): Refusal[] {
  return refusals.filter(({ isNul }) => nul || isNul !== true);
}

/** Whether any text must be searched for U+0000. */
export function looksForNul(handover: ExportColumns): boolean {
  return [...keyRefusals(handover), ...valueRefusals(handover)].some(({ isNul }) => isNul === true);
}

/** A value that the destination has refused while it was loaded: it becomes NULL, or its row is left out. */
export interface LateRefusal {
  /** The number of the row in the piece, from 1, those not counted that are left out for their key. */
  readonly row: number;
  /** The target column; null: the whole row. */
  readonly column: string | null;
}

/** A piece of an input, and how it is looked through. */
export interface RowsTask {
  readonly query: string;
  readonly search: Search;
  readonly late: readonly LateRefusal[];
}

/** The number of a row in a piece. */
export const rowNumberName = quoteIdentifier(internalName('row_number'));

function isUpsert(handover: ExportColumns): string | undefined {
  return hasDeletes(handover) ? "_op <> 'delete'" : undefined;
}

function where(conditions: readonly (string | undefined)[]): string {
  const all = conditions.filter((condition) => condition !== undefined);
  return all.length === 0 ? '' : ` WHERE ${all.join(' AND ')}`;
}

function noneOf(conditions: readonly string[]): string | undefined {
  return conditions.length === 0 ? undefined : `NOT coalesce(${conditions.join(' OR ')}, false)`;
}

/** SQL for the rows of a piece whose key can be held. */
function keyedRows(handover: ExportColumns, { query, search }: RowsTask): string {
  const keys = searched(keyRefusals(handover), search).map(({ when }) => when);
  return `(${query})${where([noneOf(keys)])}`;
}

/** SQL for some of them, by their numbers in {@link LateRefusal}. */
function numberedRows(handover: ExportColumns, task: RowsTask, which: string | undefined): string {
  return `(SELECT *, row_number() OVER () AS ${rowNumberName} FROM ${keyedRows(handover, task)})${where([which])}`;
}

export function numberedRow(handover: ExportColumns, task: RowsTask, rows: readonly number[]): string {
  return numberedRows(handover, task, `${rowNumberName} IN (${rows.join(', ')})`);
}

/** SQL for the rows of a piece that are handed over, with the piece's columns. */
function rowsOf(handover: ExportColumns, task: RowsTask): string {
  if (task.late.length === 0) return keyedRows(handover, task);
  const lost = task.late.flatMap(({ row, column }) => (column === null ? [row] : []));
  return numberedRows(handover, task, lost.length === 0 ? undefined : `${rowNumberName} NOT IN (${lost.join(', ')})`);
}

/** SQL for the value of each column; NULL if the destination cannot hold it. @param written SQL of the value that it can hold */
function valuesOf(
  handover: ExportColumns,
  { search, late }: RowsTask,
  written: (column: DeliveredColumn) => string,
): string[] {
  const refused = new Map<string, string[]>();
  const add = (column: string, when: string) => refused.set(column, [...(refused.get(column) ?? []), when]);
  for (const { column, when } of searched(valueRefusals(handover), search)) add(column, when);
  const lateRows = new Map<string, number[]>();
  for (const { row, column } of late) if (column !== null) lateRows.set(column, [...(lateRows.get(column) ?? []), row]);
  for (const [column, rows] of lateRows) add(column, `${rowNumberName} IN (${rows.join(', ')})`);
  return handover.columns.map((column) => {
    const conditions = [noneOf(refused.get(column.name) ?? []), column.isKey ? undefined : isUpsert(handover)];
    const all = conditions.filter((condition) => condition !== undefined);
    return all.length === 0 ? written(column) : `CASE WHEN ${all.join(' AND ')} THEN ${written(column)} END`;
  });
}

/** SQL of `upsert` or `delete`. */
function opSql({ marksDeletes }: ExportColumns): string {
  return marksDeletes ? "'upsert'" : "CASE WHEN _op = 'delete' THEN 'delete' ELSE 'upsert' END";
}

/** SQL for the rows of a piece, as they are handed over. */
export function exportSql(handover: ExportColumns, task: RowsTask): string {
  const values = valuesOf(handover, task, handedOver).map(
    (value, index) => `${value} AS ${quoteIdentifier(handover.columns[index]?.name ?? '')}`,
  );
  const selected = handover.opType === undefined ? values : [`${opSql(handover)} AS "_op"`, ...values];
  return `SELECT ${selected.join(', ')} FROM ${rowsOf(handover, task)}`;
}

/** SQL for the upserts among the same rows: for each column, in order, the text of the value that the table must have. */
export function expectedSql(
  handover: ExportColumns,
  task: RowsTask,
  text: (column: DeliveredColumn) => string,
): string {
  const values = valuesOf(handover, task, text).map((value, index) => `${value} AS c${index}`);
  const rows = `SELECT * FROM ${rowsOf(handover, task)}`;
  return `SELECT ${values.join(', ')} FROM (${rows})${where([isUpsert(handover)])}`;
}

/** Whether rows may have rejects that the number of rows handed over does not show. */
export function hasValueRefusals(handover: ExportColumns, search: Search): boolean {
  return searched(valueRefusals(handover), search).length > 0;
}

/** Whether any value or row may be refused. */
export function hasRefusals(handover: ExportColumns, search: Search): boolean {
  return hasValueRefusals(handover, search) || searched(keyRefusals(handover), search).length > 0;
}

/**
 * SQL for the rejects of a piece: `key`, `column`, `reason`, `run_id`, and whether the whole row is left out (`is_row`), or only a
 * delete of a row that never arrived (`is_delete`).
 */
export function rejectsSql(handover: ExportColumns, { query, search }: Pick<RowsTask, 'query' | 'search'>): string {
  const listed = (refusals: readonly Refusal[], isRow: boolean) =>
    searched(refusals, search).map(
      ({ column, reason, when }) =>
        `CASE WHEN ${when} THEN {'column': ${sqlText(column)}, 'reason': ${sqlText(reason)}, 'is_row': ${isRow}} END`,
    );
  const all = [...listed(keyRefusals(handover), true), ...listed(valueRefusals(handover), false)];
  const list = `list_filter([${all.join(', ')}], lambda r: r IS NOT NULL)`;
  return `SELECT key, found['column'] AS "column", found['reason'] AS reason, found['is_row'] AS is_row, run_id, op,
      found['is_row'] AND op = 'delete' AS is_delete
    FROM (SELECT ${rowKey(handover.key)} AS key, _run_id AS run_id, _op AS op, unnest(${list}) AS found FROM (${query}))`;
}

import { rowKey } from '../../columns/row-hash.js';
import type { DestinationConfig } from '../../config/config.js';
import { quoteIdentifier, sqlText } from '../../core/sql.js';
import { isNested, parseColumnType } from '../../sdk/column-type.js';
import type { TableConnector } from '../../sdk/former/destination.js';
import type { LoadAction, LoadColumn, ValueLimits } from '../../sdk/former/load.js';
import { jsonValueSql } from '../../sdk/json-value.js';
import type { Feed } from '../../snapshot/feed.js';
import type { DeliveredColumn } from './delivered-columns.js';

/** How to turn the rows of an input into those for a destination. */
export interface Handover {
  readonly columns: readonly DeliveredColumn[];
  /** Type of the column `_op` (upsert or delete), which comes first; undefined if the rows have no such column. */
  readonly opType: string | undefined;
  /** The stream's key columns. */
  readonly key: readonly string[];
  /** Whether deleted rows come as marked rows, not as deletes. */
  readonly marksDeletes: boolean;
  /** Whether rows with a NULL in their key are refused. */
  readonly needsKey: boolean;
  /** Rows whose key columns have more bytes of text, all together, are refused; undefined for no limit. */
  readonly keyBytes: number | undefined;
}

/** How to hand over the rows of a load. Those of a merge begin with `_op`. */
export function handoverTo({
  connector,
  config: { deletes, mode },
  feed,
  columns,
  action,
  key,
}: {
  readonly connector: Pick<TableConnector, 'mapColumn' | 'capabilities'>;
  readonly config: Pick<DestinationConfig, 'deletes' | 'mode'>;
  readonly feed: Pick<Feed, 'key'>;
  readonly columns: readonly DeliveredColumn[];
  readonly action: LoadAction;
  /** The key of the table; empty in mode `append`. */
  readonly key: readonly string[];
}): Handover {
  const text = { kind: 'text' } as const;
  const op = connector.mapColumn(text, { name: '_op', type: text, duckdbType: 'VARCHAR' });
  return {
    columns,
    opType: action.type === 'merge' ? op.type : undefined,
    key: feed.key,
    marksDeletes: deletes === 'soft' && mode === 'mirror',
    needsKey: key.length > 0,
    keyBytes: connector.capabilities.keyBytes,
  };
}

/** SQL for a column's value in the type in which it is handed over. */
function handedOver({ value, type, duckdbType, mapping: { as } }: DeliveredColumn): string {
  if (as === undefined || as === duckdbType) return value;
  if (as !== 'JSON') return `(${value})::${as}`;
  return duckdbType === 'JSON' ? `(${value})::VARCHAR` : `to_json(${jsonValueSql(value, type)})::VARCHAR`;
}

/** The columns of the rows, in order. */
export function loadColumns({ columns, opType }: Handover): LoadColumn[] {
  const listed = columns.map(({ name, type, duckdbType, mapping }): LoadColumn => {
    const handedOverAs = mapping.as === undefined ? type : parseColumnType(mapping.as);
    return { name, type, duckdbType, targetType: mapping.type, handedOverAs };
  });
  if (opType === undefined) return listed;
  const text = { kind: 'text' } as const;
  return [{ name: '_op', type: text, duckdbType: 'VARCHAR', targetType: opType, handedOverAs: text }, ...listed];
}

/** Whether rows may be deletes, of which only the key counts. Their last image may hold what the destination refuses. */
function hasDeletes({ opType, marksDeletes }: Handover): boolean {
  return opType !== undefined && !marksDeletes;
}

function isKey({ value }: DeliveredColumn, { key }: Handover): boolean {
  return key.some((name) => value === quoteIdentifier(name));
}

/** SQL for the rows of a piece. */
export function handoverSql(handover: Handover, query: string, where = ''): string {
  const imageOnly = (column: DeliveredColumn) =>
    hasDeletes(handover) && !isKey(column, handover)
      ? `CASE WHEN _op <> 'delete' THEN ${handedOver(column)} END`
      : handedOver(column);
  const op = handover.marksDeletes ? "'upsert'" : "CASE WHEN _op = 'delete' THEN 'delete' ELSE 'upsert' END";
  const values = handover.columns.map((column) => `${imageOnly(column)} AS ${quoteIdentifier(column.name)}`);
  const selected = handover.opType === undefined ? values : [`${op} AS "_op"`, ...values];
  return `SELECT ${selected.join(', ')} FROM (${query})${where}`;
}

/** A reason to refuse a row before it is sent. */
interface Refusal {
  readonly column: string;
  readonly reason: string;
  /** SQL that is true for a refused row. */
  readonly when: string;
  /** Whether the reason is U+0000: the search through every text takes longer than all other checks together. */
  readonly isNul?: boolean;
}

/** Refuses dates and timestamps outside the days that the destination supports, including infinite ones. */
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

/** All reasons for which the destination cannot store a row. */
function refusals(handover: Handover): Refusal[] {
  const found: Refusal[] = [];
  if (handover.needsKey) {
    for (const name of handover.key) {
      const value = quoteIdentifier(name);
      found.push({ column: name, reason: 'the key has no value', when: `${value} IS NULL` });
    }
    if (handover.keyBytes !== undefined) {
      const longest = handover.key.at(-1) ?? '';
      const length = handover.key.map((name) => `strlen(${quoteIdentifier(name)}::VARCHAR)`).join(' + ');
      const reason = `a key longer than ${handover.keyBytes} bytes`;
      found.push({ column: longest, reason, when: `${length} > ${handover.keyBytes}` });
    }
  }
  for (const column of handover.columns) {
    const ofColumn = refusalsOf(column);
    found.push(
      ...(hasDeletes(handover) && !isKey(column, handover)
        ? ofColumn.map((refusal) => ({ ...refusal, when: `(_op <> 'delete' AND ${refusal.when})` }))
        : ofColumn),
    );
  }
  return found;
}

/** The reasons that one column's values give. */
function refusalsOf(column: DeliveredColumn): Refusal[] {
  const { limits } = column.mapping;
  if (limits === undefined) return [];
  const found = limits.days === undefined ? [] : beyondDays(column, limits.days);
  const type = column.mapping.as === undefined ? column.type : parseColumnType(column.mapping.as);
  if (type.kind !== 'text' && type.kind !== 'json') return found;
  const value = handedOver(column);
  if (limits.nul === 'refused') {
    const isJson = type.kind === 'json' && (isNested(column.type) || column.type.kind === 'json');
    const when = isJson
      ? `(contains(${value}, '\\u0000') AND regexp_matches(${value}, '(^|[^\\\\])(\\\\\\\\)*\\\\u0000'))`
      : `contains(${value}, chr(0))`;
    found.push({ column: column.name, reason: 'the character U+0000 cannot be stored', when, isNul: true });
  }
  if (limits.maxBytes !== undefined) {
    const reason = `longer than ${limits.maxBytes} bytes`;
    found.push({ column: column.name, reason, when: `strlen(${value}) > ${limits.maxBytes}` });
  }
  return found;
}

function anyOf(all: readonly Refusal[]): string | undefined {
  return all.length === 0 ? undefined : `coalesce(${all.map(({ when }) => when).join(' OR ')}, false)`;
}

/** SQL that is true for refused rows; undefined if no row can be refused. */
export function refusedSql(handover: Handover): string | undefined {
  return anyOf(refusals(handover));
}

/** The same without the search for U+0000, for a caller that looks for U+0000 in the written file. */
export function refusedButForNulSql(handover: Handover): string | undefined {
  return anyOf(refusals(handover).filter(({ isNul }) => isNul !== true));
}

/** SQL for the refused rows of a piece: `key`, `column`, `reason` and `run_id`. */
export function refusedRowsSql(handover: Handover, query: string): string {
  const all = refusals(handover);
  const pick = (text: (refusal: Refusal) => string) =>
    `CASE ${all.map((refusal) => `WHEN ${refusal.when} THEN ${sqlText(text(refusal))}`).join(' ')} END`;
  return `SELECT ${rowKey(handover.key)} AS key, ${pick(({ column }) => column)} AS "column",
    ${pick(({ reason }) => reason)} AS reason, _run_id AS run_id FROM (${query}) WHERE ${refusedSql(handover)}`;
}

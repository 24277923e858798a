import { createHash } from 'node:crypto';
import { Kind, type Shape } from '../../columns/column-shape.js';
import { type Column, ColumnSet, columnPath, isMasked } from '../../columns/columns.js';
import { formatNamed } from '../../columns/text-format.js';
import type { DeliveredColumnRule, DestinationConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import { type ColumnType, parseColumnType, type StreamColumn, streamType } from '../../sdk/column-type.js';
import type { TableTypes } from '../../sdk/destination.js';
import type { ColumnMapping, TargetColumn } from '../../sdk/load.js';
import type { Feed } from '../../snapshot/feed.js';
import type { WantedColumn } from './column-map.js';
import { exactValue, type StreamValue, valueText } from './exact-value.js';
import type { MapEntry } from './record.js';

/** A column of the stream: its form at the destination, and its values. */
export interface SourceColumn extends WantedColumn {
  /** Whether a rule of the stream hashes or masks its values. */
  readonly isHidden: boolean;
  readonly source: StreamValue;
}

/** Whether no integer of the shape is further from zero than 2^53. */
function isSafe({ kinds, element, fields }: Shape): boolean {
  if ((kinds & (Kind.longInteger | Kind.hugeInteger)) !== 0) return false;
  return (element === undefined || isSafe(element)) && [...(fields?.values() ?? [])].every(isSafe);
}

/** Whether all integers of a column are safe; one of a declared or inferred type says nothing about its values. */
function isSafeColumn({ shape, declared, form }: Column): boolean {
  return declared === undefined && form === undefined && isSafe(shape);
}

function fingerprint(parts: unknown): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}

/** The rule of a destination for a column; `*` applies to all that it does not name. */
function ruleOf(
  rules: ReadonlyMap<string, DeliveredColumnRule>,
  { name, isKey, isEnvelope }: { readonly name: string; readonly isKey: boolean; readonly isEnvelope: boolean },
): DeliveredColumnRule {
  const others = rules.get('*');
  if (others?.selected?.has(name) === false && !isKey && !isEnvelope) return { drop: true };
  const drop = others?.drop === true && others.selected === undefined && !isKey;
  return rules.get(name) ?? { drop };
}

/**
 * The columns of a stream, in its order, as the rules of the stream and of the destination leave them.
 * @throws {CdsyncError} `destination_columns`
 */
export function wantedColumns(feed: Feed, rules: ReadonlyMap<string, DeliveredColumnRule>): SourceColumn[] {
  // Records without attributes have no envelope either: all their columns can be selected.
  const hasEnvelope = feed.columns.some(({ place }) => place === 'attribute');
  return ColumnSet.restore(feed.columns).list.map((column): SourceColumn => {
    const { name, form, rule: applied, untracked } = column;
    const type = streamType(column.type);
    const isKey = feed.key.includes(name);
    const rule = ruleOf(rules, { name, isKey, isEnvelope: hasEnvelope && column.place === 'envelope' });
    if (rule.drop && isKey) throw keyDropped(feed.stream, name);
    const parsed = parseColumnType(type);
    const value = type === column.type ? quoteIdentifier(name) : `${quoteIdentifier(name)}::${type}`;
    return {
      path: columnPath(column),
      name,
      as: rule.rename ?? name,
      type,
      isSafe: isSafeColumn(column),
      form: form?.name ?? null,
      rule: fingerprint([applied ?? null, rule.drop]),
      isDropped: rule.drop,
      isHidden: isMasked(applied),
      isTracked: !untracked,
      isKey,
      source: { value, type: parsed, duckdbType: type, form },
    };
  });
}

/** Paths of the key's columns, in the key's order. */
export function keyPaths(feed: Feed): string[] {
  const columns = ColumnSet.restore(feed.columns).list;
  return feed.key.map((name) => {
    const column = columns.find((column) => column.name === name);
    return column === undefined ? name : columnPath(column);
  });
}

function keyDropped(stream: string, name: string): CdsyncError {
  return new CdsyncError(`column "${name}" is part of the key of stream "${stream}" and cannot be dropped`, {
    code: 'destination_columns',
    stream,
    hint: 'remove its `drop` from the destination',
  });
}

/** A column of a target table: one of the stream's, or one of cdsync's own. */
export interface DeliveredColumn extends StreamColumn {
  readonly mapping: ColumnMapping;
  /** SQL for its value in a row of an input, in the type that the column was declared with. */
  readonly value: string;
  /** The column of the stream that it is made of; undefined for cdsync's own. */
  readonly path: string | undefined;
  readonly isTracked: boolean;
  readonly isKey: boolean;
}

/** A column that cdsync adds to every table of a mode. */
export interface OwnColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly duckdbType: string;
  readonly value: string;
}

const text = { type: { kind: 'text' }, duckdbType: 'VARCHAR' } as const;
const moment = { type: { kind: 'timestamp' }, duckdbType: 'TIMESTAMP WITH TIME ZONE' } as const;

/**
 * The columns that a mode adds to those of the stream.
 * @param marksLoads whether rows of `append` name their load, because a load cannot be rolled back
 */
export function ownColumns(
  { mode, deletes }: Pick<DestinationConfig, 'mode' | 'deletes'>,
  marksLoads: boolean,
): OwnColumn[] {
  const synced = { name: '_synced_at', ...moment, value: '_synced_at' };
  if (mode === 'append') {
    const logged = [{ name: '_op', ...text, value: '_op' }, { name: '_run_id', ...text, value: '_run_id' }, synced];
    return marksLoads ? [...logged, { name: '_cdsync_load', ...text, value: 'NULL::VARCHAR' }] : logged;
  }
  if (mode !== 'mirror' || deletes !== 'soft') return [synced];
  return [synced, { name: '_deleted_at', ...moment, value: "CASE WHEN _op = 'delete' THEN _synced_at END" }];
}

function delivered(
  types: TableTypes,
  name: string,
  { type, duckdbType }: Pick<StreamValue, 'type' | 'duckdbType'>,
  rest: Pick<DeliveredColumn, 'value' | 'path' | 'isTracked' | 'isKey'>,
): DeliveredColumn {
  const column: StreamColumn = { name, type, duckdbType };
  return { ...column, mapping: types.mapColumn(type, column), ...rest };
}

/** The columns that the rows of a stream have by its map: for each its target, and the variant beside it. */
export function mappedColumns(
  types: TableTypes,
  map: ReadonlyMap<string, MapEntry>,
  sources: readonly SourceColumn[],
): DeliveredColumn[] {
  return sources.flatMap(({ path, source, isTracked, isKey }) => {
    const entry = map.get(path);
    if (entry === undefined || entry.target === null) return [];
    const form = entry.form === null ? undefined : formatNamed(entry.form);
    const as = { type: parseColumnType(entry.kind), duckdbType: entry.kind, form };
    const rest = { path, isTracked };
    const target = delivered(types, entry.target, as, { ...rest, value: exactValue(source, as), isKey });
    if (entry.variant === null) return [target];
    return [target, delivered(types, entry.variant, text, { ...rest, value: valueText(source), isKey: false })];
  });
}

export function ownDelivered(types: TableTypes, { name, value, ...as }: OwnColumn): DeliveredColumn {
  return delivered(types, name, as, { value, path: undefined, isTracked: true, isKey: false });
}

export function targetColumn({ name, type: kind, mapping: { type } }: DeliveredColumn): TargetColumn {
  return { name, type, kind };
}

/** A column that exists by its declared type alone: one that is retired, or that is added. */
export function declaredTarget(types: TableTypes, name: string, duckdbType: string): TargetColumn {
  const kind = parseColumnType(duckdbType);
  return { name, kind, type: types.mapColumn(kind, { name, type: kind, duckdbType }).type };
}

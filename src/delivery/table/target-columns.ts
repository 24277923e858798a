import type { DestinationConfig } from '../../config/config.js';
import { type ColumnType, parseColumnType, type StreamColumn } from '../../sdk/column-type.js';
import type { TableTypes } from '../../sdk/destination.js';
import type { ColumnMapping, TargetColumn } from '../../sdk/load.js';
import { exactValue, type StreamValue, valueText } from './exact-value.js';
import type { MapEntry } from './record.js';
import type { SourceColumn } from './wanted-columns.js';

/** A column of a target table: one of the stream's, or one of cdsync's own. */
export interface DeliveredColumn extends StreamColumn {
  readonly mapping: ColumnMapping;
  /** SQL for its value in a row of an input, in the type that the column was declared with. */
  readonly value: string;
  /** The column of the stream that it comes from; undefined for cdsync's own. */
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
    const as = { type: parseColumnType(entry.kind), duckdbType: entry.kind };
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

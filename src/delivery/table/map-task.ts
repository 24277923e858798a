import { holdsEverywhere } from '../../sdk/column-type.js';
import type { TableTypes } from '../../sdk/destination.js';
import type { FoundTable } from '../../sdk/load.js';
import type { DeliveryRequest } from '../delivery.js';
import { TargetNames } from '../target-names.js';
import type { MapTask } from './column-map.js';
import type { OwnColumn, SourceColumn } from './columns.js';
import type { Decision } from './decide.js';
import { declaredTypeOf } from './found-type.js';
import type { TableRecord } from './record.js';

interface MapSources {
  readonly stream: string;
  readonly types: TableTypes;
  readonly names: ConstructorParameters<typeof TargetNames>[0];
  readonly request: Pick<DeliveryRequest, 'destination' | 'adopt'>;
  readonly decision: Decision;
  readonly record: TableRecord | undefined;
  /** The table; undefined if it is made from the start. */
  readonly found: FoundTable | undefined;
  /** Names of the columns that loads of this stream have added to the table, also those that the record does not know. */
  readonly added: readonly string[];
  /** Columns of the table whose types the destination has refused to change. */
  readonly fixed: ReadonlySet<string>;
  readonly own: readonly OwnColumn[];
  readonly columns: readonly SourceColumn[];
}

/** The record with only those changes of an unfinished delivery that it has made. */
function carriedOut(record: TableRecord, existingTable: FoundTable | undefined): TableRecord {
  if (record.pending === null) return record;
  const types = new Map(existingTable?.columns.map(({ name, type }) => [name, type]));
  const added = record.pending.added.filter(([name]) => types.has(name));
  const widened = record.pending.widened.filter(([name]) => types.get(name) !== record.columns.get(name));
  return { ...record, pending: { ...record.pending, added, widened } };
}

/** The record with the types of columns that a person has altered, and that `--adopt` accepts. */
function withAltered(record: TableRecord, { types }: MapSources, existingTable: FoundTable): TableRecord {
  const kinds = new Map<string, string>();
  const widened = new Set(record.pending?.widened.map(([name]) => name));
  for (const { name, type } of existingTable.columns) {
    const was = record.columns.get(name);
    const kind = was === undefined || was === type || widened.has(name) ? undefined : declaredTypeOf(types, name, type);
    if (kind !== undefined) kinds.set(name, kind);
  }
  const map = [...record.map].map(([path, entry]): [string, typeof entry] => {
    const kind = entry.target === null ? undefined : kinds.get(entry.target);
    return [path, kind === undefined ? entry : { ...entry, kind, form: null }];
  });
  const retired = [...record.retired].map(([name, kind]): [string, string] => [name, kinds.get(name) ?? kind]);
  const forms = [...(record.retired_forms ?? [])].filter(([name]) => !kinds.has(name));
  return { ...record, map: new Map(map), retired: new Map(retired), retired_forms: new Map(forms) };
}

/**
 * The record of a table that has another stamp: if the record is the older of the two, loads that it does not know may have added
 * columns. They are ours, and empty unless the stream wants them.
 */
function withUnknownColumns(record: TableRecord, { types, added }: MapSources, existingTable: FoundTable): TableRecord {
  const retired = new Map(record.retired);
  for (const { name, type } of existingTable.columns) {
    const kind = added.includes(name) && !record.columns.has(name) ? declaredTypeOf(types, name, type) : undefined;
    if (kind !== undefined) retired.set(name, kind);
  }
  return { ...record, retired };
}

/**
 * The map that the next one continues. A table that begins again has no columns, but counts its generations on: a copy of the former
 * one stays older.
 */
function continued(sources: MapSources): MapTask['before'] {
  const { record, found, decision, request } = sources;
  if (record === undefined) return undefined;
  const { generation } = record;
  if (decision.action === 'create') return { map: new Map(), retired: new Map(), generation, pending: null };
  let before = carriedOut(record, found);
  if (found !== undefined && request.adopt) before = withAltered(before, sources, found);
  if (found !== undefined && decision.copyOf !== undefined) before = withUnknownColumns(before, sources, found);
  return { ...before, generation: Math.max(generation, decision.copyOf ?? 0) };
}

/** Whether the table has a column of a name and a type: if it is taken over, or if its record was never followed by rows. */
function claimsOf({ record, found, decision, types }: MapSources): MapTask['claims'] {
  const isTakenOver = (record === undefined || record.load === '') && decision.action !== 'create';
  const existingTypes = new Map(isTakenOver ? (found?.columns ?? []).map(({ name, type }) => [name, type]) : []);
  const isTypeOf = types.isTypeOf ?? ((one: string, other: string) => one === other);
  return (name, kind, isKey) => {
    const type = existingTypes.get(name);
    if (type === undefined || isKey) return type !== undefined;
    return isTypeOf(type, types.mapColumn(kind, { name, type: kind, duckdbType: 'VARCHAR' }).type);
  };
}

/** Names that the map must not give: columns of others, cdsync's own, and all that the record has. */
function takenNames({ found, record, own }: MapSources): string[] {
  const entries = [...(record?.map.values() ?? [])];
  return [
    ...[...own, ...(found?.columns ?? [])].map(({ name }) => name),
    ...entries.flatMap(({ target, variant }) => [target, variant].filter((name) => name !== null)),
    ...(record?.retired.keys() ?? []),
  ];
}

/** Everything that the next column map follows from. */
export function mapTask(sources: MapSources): MapTask {
  const { types, request, fixed, columns, stream, decision } = sources;
  const isNew = decision.action === 'create';
  const present = isNew ? { ...sources, record: undefined, found: undefined } : sources;
  const names = new TargetNames(sources.names, takenNames(present));
  return {
    before: continued(sources),
    columns,
    types: { holds: types.holds ?? holdsEverywhere, widens: types.widens ?? (() => false) },
    onTypeChange: request.destination.onTypeChange,
    fixed,
    give: (wanted) => names.give(wanted),
    claims: claimsOf(present),
    stream,
  };
}

import { CdsyncError, type TableColumn, type TargetTable } from '../../src/sdk/index.js';
import { parsePartition, type Transform } from './partition.js';
import {
  currentSchema,
  type IcebergField,
  type IcebergType,
  type PartOfLayout,
  type TableMetadata,
} from './table-metadata.js';
import { fieldNamed, parseTypeText, typeText, widens } from './types.js';

/** A change of a table, with what must still be true when the catalog makes it (REST protocol, `CommitTableRequest`). */
export interface TableCommit {
  readonly requirements: readonly Readonly<Record<string, unknown>>[];
  readonly updates: readonly Readonly<Record<string, unknown>>[];
}

export interface Layout {
  readonly formatVersion: number;
  readonly partitionBy: readonly string[];
  /** Undefined: the key of the table. */
  readonly sort?: readonly string[] | undefined;
}

/** Counts ids of fields from the one after `last`. */
function counter(last: number): { readonly next: () => number; readonly last: () => number } {
  let id = last;
  return {
    next: () => {
      id += 1;
      return id;
    },
    last: () => id,
  };
}

function optionalField({ name, type }: TableColumn, next: () => number): IcebergField {
  const id = next();
  return { id, name, required: false, type: parseTypeText(type, next) };
}

/** The columns to sort new files of a table by. */
export function sortColumns(table: TargetTable, { sort }: Pick<Layout, 'sort'>): readonly string[] {
  return sort ?? table.key;
}

function sourceOf(fields: readonly IcebergField[], column: string, table: TargetTable, key: string): IcebergField {
  const field = fieldNamed(fields, column);
  if (field !== undefined && typeof field.type === 'string') return field;
  throw new CdsyncError(
    `\`${key}\` names the column "${column}", ${field === undefined ? `which table "${table.name}" lacks` : 'which has parts'}`,
    {
      code: 'partition_column',
      kind: 'configuration',
      hint: `name columns as they are called in the destination: ${fields.map(({ name }) => name).join(', ')}`,
    },
  );
}

/**
 * The request that creates a table.
 * @throws {CdsyncError} `partition_column`
 */
export function createRequest(table: TargetTable, layout: Layout): Record<string, unknown> {
  const { next } = counter(0);
  const fields = table.columns.map((column) => optionalField(column, next));
  const parts = layout.partitionBy.map(parsePartition).filter((part): part is Transform => part !== undefined);
  const partitions = parts.map(({ column, transform, name }, index) => {
    const source = sourceOf(fields, column, table, 'partition_by');
    const taken = transform !== 'identity' && fieldNamed(fields, name) !== undefined;
    return { 'source-id': source.id, 'field-id': 1000 + index, name: taken ? `${name}_${index}` : name, transform };
  });
  const sorted = sortColumns(table, layout).map((column) => ({
    transform: 'identity',
    'source-id': sourceOf(fields, column, table, 'sort').id,
    direction: 'asc',
    'null-order': 'nulls-first',
  }));
  return {
    name: table.name,
    schema: { type: 'struct', 'schema-id': 0, fields },
    'partition-spec': { 'spec-id': 0, fields: partitions },
    'write-order': { 'order-id': sorted.length === 0 ? 0 : 1, fields: sorted },
    'stage-create': false,
    properties: { 'format-version': String(layout.formatVersion) },
  };
}

/** The new type of a field: members that it had keep their ids, so that files written before stay readable. */
function evolved(from: IcebergType, to: IcebergType, next: () => number): IcebergType {
  if (typeof from === 'string' || typeof to === 'string') return to;
  if (from.type === 'list' && to.type === 'list') return { ...from, element: evolved(from.element, to.element, next) };
  if (from.type !== 'struct' || to.type !== 'struct') return to;
  const kept = from.fields.map((field) => {
    const there = fieldNamed(to.fields, field.name);
    return there === undefined ? field : { ...field, type: evolved(field.type, there.type, next) };
  });
  const added = to.fields.filter(({ name }) => fieldNamed(from.fields, name) === undefined);
  return { ...from, fields: [...kept, ...added.map((field) => renumbered(field, next))] };
}

function renumbered({ name, type }: IcebergField, next: () => number): IcebergField {
  return optionalField({ name, type: typeText(type) }, next);
}

/** Ids of a type that only serves to compare. */
const unnumbered = () => 0;

function newSchema(metadata: TableMetadata, fields: readonly IcebergField[], lastId: number): TableCommit {
  const schema = currentSchema(metadata);
  const ids = metadata.schemas.map((each) => each['schema-id']);
  return {
    requirements: [
      { type: 'assert-table-uuid', uuid: metadata['table-uuid'] },
      { type: 'assert-current-schema-id', 'current-schema-id': metadata['current-schema-id'] },
      { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': metadata['last-column-id'] },
    ],
    updates: [
      {
        action: 'add-schema',
        schema: { ...schema, 'schema-id': Math.max(...ids) + 1, fields },
        'last-column-id': lastId,
      },
      { action: 'set-current-schema', 'schema-id': -1 },
    ],
  };
}

/** Adds the columns that the table lacks; undefined if it has them all. */
export function addColumns(metadata: TableMetadata, columns: readonly TableColumn[]): TableCommit | undefined {
  const { fields } = currentSchema(metadata);
  const lacking = columns.filter(({ name }) => fieldNamed(fields, name) === undefined);
  if (lacking.length === 0) return undefined;
  const { next, last } = counter(metadata['last-column-id']);
  const added = lacking.map((column) => optionalField(column, next));
  return newSchema(metadata, [...fields, ...added], last());
}

/**
 * Gives a column another type; undefined if it has it already. A type that Iceberg cannot widen to is another field with the same
 * name: rows written before have no value in it, which is right for a column without values.
 */
export function changeType(metadata: TableMetadata, column: TableColumn): TableCommit | undefined {
  const { fields } = currentSchema(metadata);
  const found = fieldNamed(fields, column.name);
  if (found === undefined) return addColumns(metadata, [column]);
  const from = typeText(found.type);
  if (from === column.type) return undefined;
  const { next, last } = counter(metadata['last-column-id']);
  const changed: IcebergField = widens(from, column.type)
    ? { ...found, type: evolved(found.type, parseTypeText(column.type, unnumbered), next) }
    : optionalField({ name: found.name, type: column.type }, next);
  const { requirements, updates } = newSchema(
    metadata,
    fields.map((field) => (field === found ? changed : field)),
    last(),
  );
  return { requirements, updates: [...updates, ...layoutUpdates(metadata, found.id, changed.id)] };
}

/** The partitions, of a table that never had rows, and the sort order of new files, where they name a field that becomes another one. */
function layoutUpdates(metadata: TableMetadata, from: number, to: number): TableCommit['updates'] {
  if (from === to) return [];
  const renamed = (fields: readonly PartOfLayout[]) =>
    fields.map((field) => (field['source-id'] === from ? { ...field, 'source-id': to } : field));
  const names = ({ fields }: { readonly fields: readonly PartOfLayout[] }) =>
    fields.some((field) => field['source-id'] === from);
  const specs = metadata['partition-specs'] ?? [];
  const spec = specs.find((each) => each['spec-id'] === metadata['default-spec-id']);
  const orders = metadata['sort-orders'] ?? [];
  const order = orders.find((each) => each['order-id'] === metadata['default-sort-order-id']);
  const updates: Record<string, unknown>[] = [];
  if (spec !== undefined && names(spec)) {
    const id = Math.max(...specs.map((each) => each['spec-id'])) + 1;
    // A partition by another field is another one.
    const { next } = counter(metadata['last-partition-id'] ?? 999);
    const parts = renamed(spec.fields).map((field) =>
      field['source-id'] === to ? { ...field, 'field-id': next() } : field,
    );
    updates.push({ action: 'add-spec', spec: { 'spec-id': id, fields: parts } });
    updates.push({ action: 'set-default-spec', 'spec-id': -1 });
    // No file has it: the table never had rows.
    updates.push({ action: 'remove-partition-specs', 'spec-ids': [spec['spec-id']] });
  }
  if (order !== undefined && names(order)) {
    const id = Math.max(...orders.map((each) => each['order-id'])) + 1;
    updates.push({ action: 'add-sort-order', 'sort-order': { 'order-id': id, fields: renamed(order.fields) } });
    updates.push({ action: 'set-default-sort-order', 'sort-order-id': -1 });
  }
  return updates;
}

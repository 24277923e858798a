import { CdsyncError, type TableColumn } from '../../src/sdk/index.js';
import { parsePartition, type Transform } from './partition.js';
import {
  currentSchema,
  type IcebergField,
  type IcebergSchema,
  type IcebergType,
  type TableMetadata,
} from './table-metadata.js';
import { fieldNamed, parseTypeText, typeText } from './types.js';

/** A change of a table, with what must still be true when the catalog makes it (REST protocol, `CommitTableRequest`). */
export interface TableCommit {
  readonly requirements: readonly Readonly<Record<string, unknown>>[];
  readonly updates: readonly Readonly<Record<string, unknown>>[];
}

/** A table to be created. */
interface NewTable {
  readonly name: string;
  readonly columns: readonly TableColumn[];
  readonly key: readonly string[];
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

function sourceOf(fields: readonly IcebergField[], column: string, table: NewTable, key: string): IcebergField {
  const field = fieldNamed(fields, column);
  if (field !== undefined && typeof field.type === 'string') return field;
  throw new CdsyncError(
    `\`${key}\` names the column "${column}", ${field === undefined ? `which table "${table.name}" lacks` : 'which has parts'}`,
    {
      code: 'partition_column',
      hint: `name columns as they are called in the destination: ${fields.map(({ name }) => name).join(', ')}`,
    },
  );
}

/**
 * The request that creates a table.
 * @param properties more properties of the table
 * @throws {CdsyncError} `partition_column`
 */
export function createRequest(
  table: NewTable,
  layout: Layout,
  properties: Readonly<Record<string, string>> = {},
): Record<string, unknown> {
  const { next } = counter(0);
  const fields = table.columns.map((column) => optionalField(column, next));
  const parts = layout.partitionBy.map(parsePartition).filter((part): part is Transform => part !== undefined);
  const partitions = parts.map(({ column, transform, name }, index) => {
    const source = sourceOf(fields, column, table, 'partition_by');
    const taken = transform !== 'identity' && fieldNamed(fields, name) !== undefined;
    return { 'source-id': source.id, 'field-id': 1000 + index, name: taken ? `${name}_${index}` : name, transform };
  });
  const sorted = (layout.sort ?? table.key).map((column) => ({
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
    properties: { 'format-version': String(layout.formatVersion), ...properties },
  };
}

/** The new type of a field: members that it had keep their ids, so that files written before stay readable. */
function evolved(from: IcebergType, to: IcebergType, next: () => number): IcebergType {
  if (typeof from === 'string' || typeof to === 'string') return to;
  if (from.type === 'list' && to.type === 'list') return { ...from, element: evolved(from.element, to.element, next) };
  if (from.type !== 'struct' || to.type !== 'struct') return to;
  const fields = to.fields.map((field) => {
    const existingField = fieldNamed(from.fields, field.name);
    if (existingField !== undefined) return { ...existingField, type: evolved(existingField.type, field.type, next) };
    return optionalField({ name: field.name, type: typeText(field.type) }, next);
  });
  return { ...from, fields };
}

/** Ids of a type that only serves to compare. */
const unnumbered = () => 0;

/** The schema of a table with columns that it lacks, and with wider types; undefined if it is so already. */
export function schemaChange(
  metadata: TableMetadata,
  add: readonly TableColumn[],
  widen: readonly TableColumn[],
): { readonly schema: IcebergSchema; readonly lastId: number; readonly commit: TableCommit } | undefined {
  const present = currentSchema(metadata);
  const { next, last } = counter(metadata['last-column-id']);
  const widened = present.fields.map((field) => {
    const to = widen.find(({ name }) => fieldNamed([field], name) !== undefined);
    if (to === undefined || typeText(field.type) === to.type) return field;
    return { ...field, type: evolved(field.type, parseTypeText(to.type, unnumbered), next) };
  });
  const lacking = add.filter(({ name }) => fieldNamed(present.fields, name) === undefined);
  const fields = [...widened, ...lacking.map((column) => optionalField(column, next))];
  if (lacking.length === 0 && widened.every((field, index) => field === present.fields[index])) return undefined;
  const id = Math.max(...metadata.schemas.map((schema) => schema['schema-id'])) + 1;
  const schema = { ...present, 'schema-id': id, fields };
  return {
    schema,
    lastId: last(),
    commit: {
      requirements: [{ type: 'assert-last-assigned-field-id', 'last-assigned-field-id': metadata['last-column-id'] }],
      updates: [
        { action: 'add-schema', schema, 'last-column-id': last() },
        { action: 'set-current-schema', 'schema-id': -1 },
      ],
    },
  };
}

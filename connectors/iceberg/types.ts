import {
  type ColumnMapping,
  type ColumnType,
  duckdbType,
  duckdbWidens,
  quoteIdentifier,
  type StreamColumn,
  typeParts,
} from '../../src/sdk/index.js';
import type { IcebergField, IcebergType } from './table-metadata.js';

const plain = {
  boolean: 'boolean',
  int64: 'long',
  int128: 'decimal(38, 0)',
  double: 'double',
  text: 'string',
  json: 'string',
  timestamp: 'timestamptz',
  date: 'date',
} as const;

/** The type as Iceberg's metadata has it, with ids from `nextId`. */
function icebergType(type: ColumnType, nextId: () => number): IcebergType {
  switch (type.kind) {
    case 'decimal':
      return `decimal(${type.precision}, ${type.scale})`;
    case 'list': {
      const id = nextId();
      return { type: 'list', 'element-id': id, element: icebergType(type.element, nextId), 'element-required': false };
    }
    case 'struct': {
      const fields = type.fields.map(({ name }) => ({ id: nextId(), name, required: false }));
      const types = type.fields.map((field) => icebergType(field.type, nextId));
      return { type: 'struct', fields: fields.map((field, index) => ({ ...field, type: types[index] ?? 'string' })) };
    }
    default:
      return plain[type.kind];
  }
}

/** The text of a type, which says all of it but the ids: `struct<"a": long, "b": list<string>>`. */
export function typeText(type: IcebergType): string {
  if (typeof type === 'string') return type.replace(/^decimal\((\d+),\s*(\d+)\)$/, 'decimal($1, $2)');
  if (type.type === 'list') return `list<${typeText(type.element)}>`;
  if (type.type === 'map') return `map<${typeText(type.key)}, ${typeText(type.value)}>`;
  return `struct<${type.fields.map((field) => `${quoteIdentifier(field.name)}: ${typeText(field.type)}`).join(', ')}>`;
}

/** The type of a text that {@link typeText} has made. */
export function parseTypeText(text: string, nextId: () => number): IcebergType {
  const list = /^list<(.*)>$/s.exec(text)?.[1];
  if (list !== undefined)
    return { type: 'list', 'element-id': nextId(), element: parseTypeText(list, nextId), 'element-required': false };
  const struct = /^struct<(.*)>$/s.exec(text)?.[1];
  if (struct === undefined) return text;
  const fields = members(struct).map(({ name, type }) => ({ id: nextId(), name, type }));
  return {
    type: 'struct',
    fields: fields.map(({ id, name, type }) => ({ id, name, required: false, type: parseTypeText(type, nextId) })),
  };
}

function members(text: string): { name: string; type: string }[] {
  return typeParts(text).map((part) => {
    const [, name = '', type = ''] = /^"((?:[^"]|"")*)": (.+)$/s.exec(part) ?? [];
    return { name: name.replaceAll('""', '"'), type };
  });
}

/** The type in DuckDB: in files that are handed over, and of the values that it reads from a table. */
export function inDuckdb(type: ColumnType): string {
  return duckdbType(type, 'DECIMAL(38,0)', 'VARCHAR');
}

/** Other engines refuse years beyond 9999, and Iceberg has no infinite dates. */
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Iceberg has no 128-bit integers and, in format 2, no JSON: these become decimals and text. */
export function mapColumn(type: ColumnType): ColumnMapping {
  const mapping = { type: typeText(icebergType(type, () => 0)), as: inDuckdb(type) };
  return type.kind === 'date' || type.kind === 'timestamp' ? { ...mapping, limits: { days } } : mapping;
}

/** Most bytes that the name of a file or folder may have. */
const maxNameLength = 255;

/**
 * {@link mapColumn} for tables that are partitioned by the values of some columns. Engines name folders after such values, and write
 * most bytes as three.
 * @param partitioned names of these columns in the destination
 */
export function mapPartitioned(
  partitioned: readonly string[],
): (type: ColumnType, column: StreamColumn) => ColumnMapping {
  const all = new Set(partitioned.map((name) => name.toLowerCase()));
  return (type, { name }) => {
    const mapping = mapColumn(type);
    if (mapping.type !== 'string' || !all.has(name.toLowerCase())) return mapping;
    const left = maxNameLength - encodeURIComponent(name).length - 1;
    return { ...mapping, limits: { maxBytes: Math.max(1, Math.floor(left / 3)) } };
  };
}

/** The field of a name. Readers such as Spark and Trino ignore case. */
export function fieldNamed(fields: readonly IcebergField[], name: string): IcebergField | undefined {
  return (
    fields.find((field) => field.name === name) ??
    fields.find((field) => field.name.toLowerCase() === name.toLowerCase())
  );
}

/** What Iceberg's schema evolution allows: more digits before the point, and new members of structs. */
export function widens(declared: ColumnType, current: ColumnType): boolean {
  return duckdbWidens(declared, current, (from, to) => {
    // Text and JSON are both `string`, but a column never holds both.
    if (from.kind === to.kind && from.kind !== 'decimal') return true;
    const [small, large] = [digits(from), digits(to)];
    return small !== undefined && large !== undefined && small.scale === large.scale && small.all <= large.all;
  });
}

/** Whether values of the type are JSON, or have some in them. */
export function holdsJson(type: ColumnType): boolean {
  if (type.kind === 'list') return holdsJson(type.element);
  return type.kind === 'struct' ? type.fields.some((field) => holdsJson(field.type)) : type.kind === 'json';
}

/** The digits of a type that is a decimal in Iceberg. */
function digits(type: ColumnType): { readonly all: number; readonly scale: number } | undefined {
  if (type.kind === 'int128') return { all: 38, scale: 0 };
  return type.kind === 'decimal' ? { all: type.precision, scale: type.scale } : undefined;
}

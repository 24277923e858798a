import type { ColumnType } from '../column-type.js';
import { duckdbIdentifier } from './duckdb-dialect.js';

const plain = {
  boolean: 'BOOLEAN',
  int64: 'BIGINT',
  double: 'DOUBLE',
  text: 'VARCHAR',
  json: 'JSON',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  date: 'DATE',
} as const;

/** A type as DuckDB spells it. @param int128 of an integer of 128 bits: Parquet and DuckLake have none, but decimals of 38 digits */
export function duckdbType(type: ColumnType, int128: 'HUGEINT' | 'DECIMAL(38,0)'): string {
  switch (type.kind) {
    case 'int128':
      return int128;
    case 'decimal':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'list':
      return `${duckdbType(type.element, int128)}[]`;
    case 'struct':
      return `STRUCT(${type.fields.map(({ name, type: of }) => `${duckdbIdentifier(name)} ${duckdbType(of, int128)}`).join(', ')})`;
    default:
      return plain[type.kind];
  }
}

/**
 * Whether DDL of DuckDB makes every value of one type one of the other: members of structs may be added, elements of lists widen.
 * @param widens the same for types that have no parts
 */
export function duckdbWidens(
  declared: ColumnType,
  now: ColumnType,
  widens: (declared: ColumnType, now: ColumnType) => boolean,
): boolean {
  if (declared.kind === 'struct' && now.kind === 'struct') {
    return declared.fields.every((field) => {
      const there = now.fields.find(({ name }) => name.toLowerCase() === field.name.toLowerCase());
      return there !== undefined && duckdbWidens(field.type, there.type, widens);
    });
  }
  if (declared.kind === 'list' && now.kind === 'list') return duckdbWidens(declared.element, now.element, widens);
  return widens(declared, now);
}

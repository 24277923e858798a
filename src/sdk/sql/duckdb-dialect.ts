import { quoteIdentifier, sqlText } from '../../core/sql.js';
import type { ColumnType } from '../column-type.js';
import type { SqlDialect } from './dialect.js';
import { canonicalText, duckdbHashing } from './row-sum.js';
import { definitions, stagedColumns } from './statements.js';

const duckdbNames = { identifier: quoteIdentifier };

/**
 * What DuckDB writes differently. A transaction holds DDL too.
 * @param database SQL of the name of an attached database, if it is not the one that was opened
 */
export function duckdbDialect(schema: string, database?: string): SqlDialect {
  const within = database === undefined ? '' : `${database}.`;
  const table = (name: string) => `${within}${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
  return {
    commit: 'transaction_with_ddl',
    stamps: 'load',
    foldsTables: true,
    hashing: duckdbHashing,
    own: { text: 'VARCHAR', integer: 'BIGINT', stateTail: ', PRIMARY KEY (destination, stream, table_name)' },
    ...duckdbNames,
    table,
    literal: sqlText,
    moment: (iso) => `${sqlText(iso)}::TIMESTAMPTZ`,
    canonical: canonicalText,
    stage: (_, columns) => ({
      name: 'temp._cdsync_stage',
      create: [`CREATE TEMP TABLE _cdsync_stage (${definitions(duckdbNames, stagedColumns(columns))})`],
      drop: ['DROP TABLE IF EXISTS temp._cdsync_stage'],
    }),
  };
}

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
      return `STRUCT(${type.fields.map(({ name, type: of }) => `${quoteIdentifier(name)} ${duckdbType(of, int128)}`).join(', ')})`;
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

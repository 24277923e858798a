import { canonicalText, duckdbHashing } from './canonical.js';
import type { SqlDialect } from './dialect.js';

export function duckdbIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function duckdbLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * What DuckDB writes differently. A transaction holds DDL too.
 * @param database SQL of the name of an attached database, if it is not the one that was opened
 */
export function duckdbDialect(schema: string, database?: string): SqlDialect {
  const within = database === undefined ? '' : `${database}.`;
  const table = (name: string) => `${within}${duckdbIdentifier(schema)}.${duckdbIdentifier(name)}`;
  return {
    commit: 'transaction_with_ddl',
    stamps: 'load',
    foldsTables: true,
    hashing: duckdbHashing,
    own: { text: 'VARCHAR', integer: 'BIGINT', stateTail: ', PRIMARY KEY (destination, stream, table_name)' },
    identifier: duckdbIdentifier,
    table,
    literal: duckdbLiteral,
    moment: (iso) => `${duckdbLiteral(iso)}::TIMESTAMPTZ`,
    canonical: canonicalText,
    create: ({ name, columns }) => [
      `CREATE TABLE ${table(name)} (${columns.map((column) => `${duckdbIdentifier(column.name)} ${column.type}`).join(', ')})`,
    ],
    add: ({ name }, columns) =>
      columns.map((column) => `ALTER TABLE ${table(name)} ADD COLUMN ${duckdbIdentifier(column.name)} ${column.type}`),
    widen: ({ name }, { name: column, type }) => [
      `ALTER TABLE ${table(name)} ALTER COLUMN ${duckdbIdentifier(column)} SET DATA TYPE ${type}`,
    ],
    stage: (_, columns) => ({
      name: 'temp._cdsync_stage',
      create: [
        `CREATE TEMP TABLE _cdsync_stage (${columns.map(({ name, targetType }) => `${duckdbIdentifier(name)} ${targetType}`).join(', ')})`,
      ],
      drop: ['DROP TABLE IF EXISTS temp._cdsync_stage'],
    }),
    comment: (name, text) => [`COMMENT ON TABLE ${table(name)} IS ${duckdbLiteral(text)}`],
  };
}

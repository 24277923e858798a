import { type ColumnType, quoteIdentifier, type SqlDialect, sqlText } from '../../src/sdk/index.js';

/** The same texts as `canonicalText`; jsonb has its own layout, so it is compared with the staged value. */
function canonical(column: string, { kind }: ColumnType): string | undefined {
  switch (kind) {
    case 'text':
      return column;
    case 'double':
      return `encode(float8send(CASE WHEN ${column} = 0 THEN 0 ELSE ${column} END), 'hex')`;
    case 'date':
      return `CASE WHEN isfinite(${column}) THEN (${column} - DATE '1970-01-01')::text ELSE ${column}::text END`;
    case 'timestamp':
      return `CASE WHEN isfinite(${column}) THEN (extract(epoch FROM ${column}) * 1000000)::bigint::text ELSE ${column}::text END`;
    case 'json':
    case 'list':
    case 'struct':
      return undefined;
    default:
      return `${column}::text`;
  }
}

/**
 * What PostgreSQL writes differently. It has DDL in transactions, but ADD COLUMN would lock readers out until the commit: so DDL comes
 * before, as in databases without.
 */
export function postgresDialect(schema: string): SqlDialect {
  const table = (name: string) => `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
  const typed = (columns: readonly { readonly name: string; readonly type: string }[]) =>
    columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
  return {
    commit: 'transaction',
    stamps: 'load',
    foldsTables: false,
    hashing: {
      md5: (text) => `md5(${text})`,
      number: (hex) => `('x0' || substr(${hex}, 1, 15))::bit(64)::bigint`,
      sum: (number) => `coalesce(sum(${number}), 0)::text`,
    },
    own: { text: 'text', integer: 'bigint', stateTail: ', PRIMARY KEY (destination, stream, table_name)' },
    identifier: quoteIdentifier,
    table,
    // Backslashes are plain characters: standard_conforming_strings is on in every session.
    literal: sqlText,
    moment: (iso) => `${sqlText(iso)}::timestamptz`,
    canonical,
    // The primary key is added after the first load: one sort is cheaper than a million inserts into an index.
    create: ({ name, columns }) => [`CREATE TABLE ${table(name)} (${typed(columns).join(', ')})`],
    add: ({ name }, columns) => [
      `ALTER TABLE ${table(name)} ${typed(columns)
        .map((column) => `ADD COLUMN IF NOT EXISTS ${column}`)
        .join(', ')}`,
    ],
    widen: ({ name }, { name: column, type }) => [
      `ALTER TABLE ${table(name)} ALTER COLUMN ${quoteIdentifier(column)} TYPE ${type} USING ${quoteIdentifier(column)}::${type}`,
    ],
    stage: (_, columns) => ({
      name: 'pg_temp._cdsync_stage',
      create: [
        `CREATE TEMP TABLE _cdsync_stage (${typed(columns.map(({ name, targetType: type }) => ({ name, type }))).join(', ')})`,
      ],
      drop: ['DROP TABLE IF EXISTS pg_temp._cdsync_stage'],
    }),
    afterStage: (stage) => [`ANALYZE ${stage}`],
    afterFill: ({ name, key, isKeyed }) =>
      isKeyed ? [`ALTER TABLE ${table(name)} ADD PRIMARY KEY (${key.map(quoteIdentifier).join(', ')})`] : [],
    comment: (name, text) => [`COMMENT ON TABLE ${table(name)} IS ${sqlText(text)}`],
  };
}

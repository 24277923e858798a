import { quoteIdentifier, sqlText } from '../../core/sql.js';
import type { SqlDialect } from '../sql/dialect.js';
import { canonicalTexts } from '../sql/row-sum.js';
import { definitions, stagedColumns } from '../sql/statements.js';
import { isNarrower } from './types.js';

/** The same texts as `canonicalText`; jsonb has its own layout, so it is compared with the staged value. */
const canonical = canonicalTexts((column) => `${column}::text`, {
  text: (column) => column,
  double: (column) => `encode(float8send(CASE WHEN ${column} = 0 THEN 0 ELSE ${column} END), 'hex')`,
  date: (column) => `CASE WHEN isfinite(${column}) THEN (${column} - DATE '1970-01-01')::text ELSE ${column}::text END`,
  // Before PostgreSQL 14 an epoch is a double, which has no microseconds from 2255 on: so the second and its part are two numbers.
  timestamp: (column) =>
    `CASE WHEN isfinite(${column}) THEN (date_part('epoch', date_trunc('second', ${column}))::bigint * 1000000 + date_part('microseconds', ${column})::bigint % 1000000)::text ELSE ${column}::text END`,
  json: null,
});

/**
 * The SQL that PostgreSQL writes differently, with the differences of a relative. It has DDL in transactions, but ADD COLUMN would
 * lock readers out until the commit: so DDL runs before, as in databases without.
 */
export function postgresDialect(schema: string, differences: Partial<SqlDialect> = {}): SqlDialect {
  const table = (name: string) => `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
  const identifier = quoteIdentifier;
  return {
    commit: 'transaction',
    stamps: 'load',
    foldsTables: false,
    hashing: {
      hash: (text) => `md5(${text})`,
      number: (hex) => `('x0' || substr(${hex}, 1, 15))::bit(64)::bigint`,
      sum: (number) => `coalesce(sum(${number}), 0)::text`,
    },
    own: { text: 'text', integer: 'bigint', stateTail: ', PRIMARY KEY (destination, stream, table_name)' },
    identifier,
    table,
    // Backslashes are plain characters: standard_conforming_strings is on in every session.
    literal: sqlText,
    moment: (iso) => `${sqlText(iso)}::timestamptz`,
    canonical,
    // A person may have given a column a collation for which small and capital letters are the same.
    differs: (one, other, kind) => {
      const [left, right] = kind?.kind === 'text' ? [`${one} COLLATE "C"`, `${other} COLLATE "C"`] : [one, other];
      return `${left} IS DISTINCT FROM ${right}`;
    },
    // Of a constant NULL, PostgreSQL knows the result of most functions without the right to call them.
    noValue: (type) => `CAST(CASE WHEN random() > 2 THEN '' END AS ${type})`,
    // Tables of cdsync's own are made one at a time.
    functions: ["pg_advisory_xact_lock(hashtext('cdsync check'))::text"],
    stage: (_, columns) => ({
      name: 'pg_temp._cdsync_stage',
      create: [`CREATE TEMP TABLE _cdsync_stage (${definitions({ identifier }, stagedColumns(columns))})`],
      drop: ['DROP TABLE IF EXISTS pg_temp._cdsync_stage'],
    }),
    isNarrower,
    afterStage: (stage) => [`ANALYZE ${stage}`],
    // Not with the table: one sort is cheaper than a million inserts into an index.
    afterFill: ({ name, key, isKeyed }) =>
      isKeyed ? [`ALTER TABLE ${table(name)} ADD PRIMARY KEY (${key.map(quoteIdentifier).join(', ')})`] : [],
    ...differences,
  };
}

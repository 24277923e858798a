import {
  canonicalTexts,
  definitions,
  type MergeTask,
  mergeSql,
  type SqlDialect,
  stagedColumns,
  type TargetTable,
} from '../../src/sdk/index.js';

/** A stage that a crash leaves behind expires after a day. */
const expires = 'expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)';

/** Else a table takes the collation of its dataset, by which keys that differ in case may be one. */
const exactTexts = " DEFAULT COLLATE ''";

export function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

export function literal(value: string): string {
  const escaped = value.replace(/[\\'\p{Cc}]/gu, (character) => {
    if (character === '\\' || character === "'") return `\\${character}`;
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `'${escaped}'`;
}

/** The same texts as `canonicalText`. The bits of a double and the zeros of a decimal are lost, so these are compared as values. */
const canonical = canonicalTexts((column) => `CAST(${column} AS STRING)`, {
  date: (column) => `CAST(UNIX_DATE(${column}) AS STRING)`,
  timestamp: (column) => `CAST(UNIX_MICROS(${column}) AS STRING)`,
  text: (column) => column,
  json: (column) => column,
  double: null,
  decimal: null,
});

/** Clusters a table by its key, so that a MERGE need not read the whole table. */
function clusteredBy({ columns, key }: TargetTable): string {
  const typed = columns.filter(({ name, type }) => key.includes(name) && type !== 'FLOAT64').slice(0, 4);
  return typed.length === 0 ? '' : ` CLUSTER BY ${typed.map(({ name }) => identifier(name)).join(', ')}`;
}

/** What becomes of rows that the stage lacks. */
function absentClauses({ t, write, clear, moment }: MergeTask): string[] {
  const absent = 'WHEN NOT MATCHED BY SOURCE';
  if (write.absent === 'delete') return [`${absent} THEN DELETE`];
  const emptied = clear.map((name) => `${identifier(name)} = NULL`);
  const deletedAt = identifier('_deleted_at');
  const clauses: string[] = [];
  if (write.absent === 'mark') {
    const set = [`${deletedAt} = ${moment}`, ...emptied];
    clauses.push(`${absent} AND ${t}.${deletedAt} IS NULL THEN UPDATE SET ${set.join(', ')}`);
  }
  if (emptied.length > 0) clauses.push(`${absent} THEN UPDATE SET ${emptied.join(', ')}`);
  return clauses;
}

/**
 * What BigQuery writes differently. A transaction takes no DDL, so that precedes the rows, and only a new table or a reload gets a
 * stamp.
 * @param stage the table of this load's rows, and the session that has its transaction
 */
export function bigqueryDialect(stage: () => { readonly name: string; readonly session: string }): SqlDialect {
  const dialect: SqlDialect = {
    commit: 'transaction',
    stamps: 'reload',
    foldsTables: false,
    mergesState: true,
    stagesAll: true,
    hashing: {
      hash: (text) => `TO_HEX(MD5(${text}))`,
      number: (hex) => `CAST(CONCAT('0x', SUBSTR(${hex}, 1, 15)) AS INT64)`,
      sum: (number) => `CAST(COALESCE(SUM(CAST(${number} AS NUMERIC)), 0) AS STRING)`,
      marks: { between: 'CHR(31)', nothing: 'CHR(30)' },
    },
    own: { text: 'STRING', integer: 'INT64', tail: exactTexts },
    identifier,
    table: identifier,
    literal,
    moment: (iso) => `TIMESTAMP ${literal(iso)}`,
    canonical,
    create: (table) => [
      `CREATE TABLE ${identifier(table.name)} (${definitions(dialect, table.columns)})${exactTexts}${clusteredBy(table)}`,
    ],
    add: ({ name }, columns) => {
      const added = columns.map((column) => `ADD COLUMN IF NOT EXISTS ${definitions(dialect, [column])}`);
      return [`ALTER TABLE ${identifier(name)} ${added.join(', ')}`];
    },
    stage: (_, columns) => {
      const { name, session } = stage();
      const staged = definitions(dialect, stagedColumns(columns));
      const options = `OPTIONS (${expires}, description = ${literal(session)})`;
      return {
        name: identifier(name),
        create: [`CREATE TABLE ${identifier(name)} (${staged})${exactTexts} ${options}`],
        drop: [`DROP TABLE IF EXISTS ${identifier(name)}`],
        outlives: true,
      };
    },
    // One MERGE does everything: a query is billed by the bytes that it reads.
    merge: (task) => [{ sql: mergeSql(dialect, task, absentClauses(task)), rowEffect: 'balance' }],
    comment: (name, text) => [`ALTER TABLE ${identifier(name)} SET OPTIONS (description = ${literal(text)})`],
  };
  return dialect;
}

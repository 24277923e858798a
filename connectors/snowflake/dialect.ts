import {
  absentChanges,
  type Change,
  canonicalTexts,
  definitions,
  type MergeTask,
  mergeSql,
  quoteIdentifier,
  type SqlDialect,
  sameKey,
} from '../../src/sdk/index.js';
import { text } from './types.js';

/** Backslashes escape in Snowflake. */
export function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/** Else a table takes the collation of its schema, database or account, by which keys that differ in case may be one. */
const exactTexts = " DEFAULT_DDL_COLLATION = ''";

/** The name of a session's stage for files. It needs no quotes. @param session digits of the session */
export function fileStage(session: string): string {
  return `CDSYNC_FILES_${session.toUpperCase()}`;
}

/** The same texts as `canonicalText`. The bits of a double and the layout of JSON and decimals differ, so these are compared as values. */
const canonical = canonicalTexts((column) => `TO_VARCHAR(${column})`, {
  text: (column) => column,
  date: (column) => `TO_VARCHAR(DATEDIFF(DAY, '1970-01-01'::DATE, ${column}))`,
  timestamp: (column) => `TO_VARCHAR(DATE_PART(EPOCH_MICROSECOND, ${column}))`,
  double: null,
  decimal: null,
  json: null,
});

/** One MERGE, which reads the table once. Snowflake's has no clause for rows that the stage lacks. */
function merge(dialect: SqlDialect, task: MergeTask): Change[] {
  const { table, target, stage, s } = task;
  const isAbsent = `NOT EXISTS (SELECT 1 FROM ${stage} AS ${s} WHERE ${sameKey(dialect, { table, t: target, s })})`;
  const absent = absentChanges(dialect, task, {
    remove: `DELETE FROM ${target} WHERE ${isAbsent}`,
    update: (set, which) => `UPDATE ${target} SET ${set} WHERE ${which}${isAbsent}`,
  });
  return [{ sql: mergeSql(dialect, task), rowEffect: 'balance' }, ...absent];
}

/**
 * What Snowflake writes differently. DDL commits alone, so it precedes the rows, and only a new table or a reload gets a stamp.
 * @param session digits that no other session has
 */
export function snowflakeDialect(session: string): SqlDialect {
  const rows = quoteIdentifier(`_cdsync_rows_${session}`);
  const files = fileStage(session);
  const dialect: SqlDialect = {
    commit: 'transaction',
    stamps: 'reload',
    foldsTables: false,
    mergesState: true,
    stagesAll: true,
    hashing: {
      hash: (value) => `MD5(${value})`,
      number: (hex) => `TO_NUMBER(SUBSTR(${hex}, 1, 15), '${'X'.repeat(15)}')`,
      sum: (number) => `TO_VARCHAR(COALESCE(SUM(${number}), 0))`,
      marks: { between: 'CHR(31)', nothing: 'CHR(30)' },
    },
    own: { text, integer: 'NUMBER(38,0)', tail: exactTexts },
    identifier: quoteIdentifier,
    table: quoteIdentifier,
    literal,
    moment: (iso) => `TO_TIMESTAMP_TZ(${literal(iso)})`,
    canonical,
    noValue: (type) => `NULL::${type}`,
    functions: ["PARSE_JSON('null')"],
    create: ({ name, columns }) => [
      `CREATE TABLE ${quoteIdentifier(name)} (${definitions(dialect, columns)})${exactTexts}`,
    ],
    // Only this session sees the two, and they end with it. JSON is text until PARSE_JSON reads it.
    stage: (_, columns) => {
      const isText = columns.map(({ targetType }) => targetType === 'VARIANT');
      const staged = columns.map(({ name, targetType }, index) => ({ name, type: isText[index] ? text : targetType }));
      const read = columns.map(({ name }, index) =>
        isText[index] ? `PARSE_JSON(${quoteIdentifier(name)}) AS ${quoteIdentifier(name)}` : quoteIdentifier(name),
      );
      return {
        name: rows,
        ...(isText.includes(true) ? { reads: `(SELECT ${read.join(', ')} FROM ${rows})` } : {}),
        create: [
          `CREATE TEMPORARY STAGE ${files}`,
          `CREATE TEMPORARY TABLE ${rows} (${definitions(dialect, staged)})${exactTexts}`,
        ],
        drop: [`DROP STAGE IF EXISTS ${files}`, `DROP TABLE IF EXISTS ${rows}`],
      };
    },
    merge: (task) => merge(dialect, task),
  };
  return dialect;
}

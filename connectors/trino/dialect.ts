import { createHash } from 'node:crypto';
import {
  definitions,
  type MergeTask,
  mergeSql,
  nameList,
  quoteIdentifier,
  type SqlDialect,
  sameKey,
  sqlText,
  stagedColumns,
  type TargetTable,
} from '../../src/sdk/index.js';
import type { CatalogTraits } from './catalogs.js';
import { type SchemaPlace, tablePath } from './statements.js';
import { canonical, momentSql } from './types.js';

const op = quoteIdentifier('_op');
const deletedAt = quoteIdentifier('_deleted_at');

/** How the names of the stages of one table begin, which are left if a delivery is killed. */
export function stageName({ catalog, schema }: SchemaPlace, table: string): string {
  const digits = createHash('sha256')
    .update(JSON.stringify([catalog, schema, table]))
    .digest('hex');
  return `_cdsync_rows_${digits.slice(0, 16)}_`;
}

/** What becomes of rows that the stage lacks: what to set, and which rows need it. */
function absentChange({ write, clear, moment, t }: MergeTask) {
  const isMarked = write.absent === 'mark';
  const marks = isMarked ? [`${deletedAt} = coalesce(${t}.${deletedAt}, ${moment})`] : [];
  return {
    set: [...marks, ...clear.map((name) => `${quoteIdentifier(name)} = NULL`)],
    when: [
      ...(isMarked ? [`${t}.${deletedAt} IS NULL`] : []),
      ...clear.map((name) => `${t}.${quoteIdentifier(name)} IS NOT NULL`),
    ],
  };
}

/** One MERGE. Trino's has no clause for rows that the stage lacks: the source names their keys itself. */
function merge(dialect: SqlDialect, task: MergeTask): string {
  const { table, target, stage, t, s, write } = task;
  const { set, when } = absentChange(task);
  const isDeleted = write.absent === 'delete';
  if (!isDeleted && set.length === 0) return mergeSql(dialect, task);
  const columns = table.columns.map(({ name }) => name);
  const keys = columns.map((name) => (table.key.includes(name) ? `${t}.${quoteIdentifier(name)}` : 'NULL'));
  const some = isDeleted ? '' : ` AND (${when.join(' OR ')})`;
  const source = `(SELECT ${op}, ${nameList(dialect, columns)} FROM ${stage} AS ${s} UNION ALL
    SELECT 'absent', ${keys.join(', ')} FROM ${target} AS ${t}
    WHERE NOT EXISTS (SELECT 1 FROM ${stage} AS ${s} WHERE ${sameKey(dialect, task)})${some})`;
  const change = isDeleted ? 'DELETE' : `UPDATE SET ${set.join(', ')}`;
  return mergeSql(dialect, { ...task, stage: source }, [`WHEN MATCHED AND ${s}.${op} = 'absent' THEN ${change}`]);
}

/** A MERGE of no row, to be explained: it fails where the catalog has no MERGE. */
function explainedMerge(dialect: SqlDialect, table: TargetTable): string {
  const target = dialect.table(table.name);
  const names = table.columns.map(({ name }) => name);
  const stage = `(SELECT 'upsert' AS ${op}, ${nameList(dialect, names)} FROM ${target} WHERE false)`;
  const write = { type: 'merge', absent: 'keep', isReload: false } as const;
  return `EXPLAIN (TYPE VALIDATE) ${mergeSql(dialect, { table, target, stage, t: 't', s: 's', write, empty: [] })}`;
}

/** A table made by the database's own statement, with a primary key. Names in small letters: Trino finds no others. */
function createdNatively({ catalog, schema }: SchemaPlace, { name, columns, key }: TargetTable): string {
  const lower = (text: string) => quoteIdentifier(text.toLowerCase());
  const defined = columns.map(
    (column) => `${lower(column.name)} ${column.type === 'double' ? 'double precision' : column.type}`,
  );
  const sql = `CREATE TABLE ${lower(schema)}.${lower(name)} (${defined.join(', ')}, PRIMARY KEY (${key.map(lower).join(', ')}))`;
  return `CALL ${quoteIdentifier(catalog)}.system.execute(query => ${sqlText(sql)})`;
}

/**
 * What Trino writes differently. Each statement commits alone.
 * @param place of the tables @param staging where stages are @param attempt differs between deliveries: none writes into the stage of
 *   another one
 */
export function trinoDialect(
  place: SchemaPlace,
  traits: CatalogTraits,
  { staging, attempt }: { readonly staging: SchemaPlace; readonly attempt: string },
): SqlDialect {
  const table = (name: string) => tablePath(place, name);
  const dialect: SqlDialect = {
    commit: 'steps',
    stamps: 'load',
    addsState: true,
    foldsTables: true,
    stagesAll: true,
    hashing: {
      // `||` makes no text of more than 1 MB.
      join: (texts) => `array_join(ARRAY[${texts.join(', ')}], '')`,
      hash: (text) => `lower(to_hex(md5(to_utf8(${text}))))`,
      number: (hex) => `from_base(substr(${hex}, 1, 15), 16)`,
      sum: (number) => `CAST(coalesce(sum(CAST(${number} AS decimal(38,0))), 0) AS varchar)`,
      marks: { between: 'chr(31)', nothing: 'chr(30)' },
    },
    own: { text: 'varchar', integer: 'bigint' },
    identifier: quoteIdentifier,
    table,
    literal: sqlText,
    moment: (iso) => momentSql(iso, traits.moment),
    canonical,
    create: (target) => {
      if (target.isKeyed && traits.needsPrimaryKey === true) return [createdNatively(place, target)];
      const create = `CREATE TABLE ${table(target.name)} (${definitions(dialect, target.columns)})`;
      return target.isKeyed && traits.merges === undefined ? [create, explainedMerge(dialect, target)] : [create];
    },
    stage: ({ name }, columns) => {
      const stage = tablePath(staging, stageName(place, name) + attempt);
      return {
        name: stage,
        create: [`CREATE TABLE ${stage} (${definitions(dialect, stagedColumns(columns))})`],
        drop: [`DROP TABLE IF EXISTS ${stage}`],
      };
    },
    merge: (task) => [{ sql: merge(dialect, task) }],
  };
  return dialect;
}

import { type LoadColumn, type TableColumn, type TargetTable, trinoIdentifier } from '../../src/sdk/index.js';
import type { CsvRow } from './csv.js';
import { typed, valueText } from './types.js';

const op = trinoIdentifier('_op');
const deletedAt = trinoIdentifier('_deleted_at');

export function names(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${trinoIdentifier(name)}`).join(', ');
}

export function definitions(columns: readonly TableColumn[]): string {
  return columns.map(({ name, type }) => `${trinoIdentifier(name)} ${type}`).join(', ');
}

/** A row as part of {@link literalRows}. */
export function rowText(row: CsvRow, columns: readonly Pick<LoadColumn, 'targetType'>[]): string {
  const texts = columns.map(({ targetType }, index) => {
    const text = row[index] ?? null;
    return text === null ? null : valueText(text, targetType);
  });
  return JSON.stringify(texts).replaceAll("'", "''");
}

/**
 * A query of the rows in a statement's own text. One literal of JSON, because Trino plans thousands of expressions in VALUES far
 * slower.
 * @param rows as {@link rowText} writes them, joined by commas
 */
export function literalRows(columns: readonly LoadColumn[], rows: string): string {
  const values = columns.map(
    ({ name, targetType }, index) => `${typed(`r[${index + 1}]`, targetType)} AS ${trinoIdentifier(name)}`,
  );
  return `SELECT ${values.join(', ')} FROM UNNEST(CAST(json_parse('[${rows}]') AS array(array(varchar)))) AS x(r)`;
}

function sameKey(key: readonly string[], one: string, other: string): string {
  return key.map((name) => `${one}.${trinoIdentifier(name)} = ${other}.${trinoIdentifier(name)}`).join(' AND ');
}

/** A full load writes only rows that differ; another `_synced_at` alone is no difference. */
function updateClause({ columns, key }: TargetTable, comesAll: boolean): string[] {
  const values = columns.filter(({ name }) => !key.includes(name)).map(({ name }) => trinoIdentifier(name));
  if (values.length === 0) return [];
  const compared = values.filter((name) => name !== trinoIdentifier('_synced_at'));
  const differs = compared.map((name) => `t.${name} IS DISTINCT FROM s.${name}`).join(' OR ');
  const when = comesAll && compared.length > 0 ? ` AND (${differs})` : '';
  const set = values.map((name) => `${name} = s.${name}`).join(', ');
  return [`WHEN MATCHED AND s.${op} = 'upsert'${when} THEN UPDATE SET ${set}`];
}

/** What a MERGE does with rows of the table whose keys do not come, and when that was, as SQL. */
export type Absent = { readonly type: 'keep' | 'delete' } | { readonly type: 'mark'; readonly moment: string };

/**
 * One MERGE that brings all rows of a load into the table. Trino has no WHEN NOT MATCHED BY SOURCE: the source names the absent keys
 * itself.
 * @param target SQL of the table's name
 * @param rows a query of the rows, beginning with `_op`
 */
export function mergeSql(table: TargetTable, target: string, rows: string, absent: Absent): string {
  const { columns, key } = table;
  const missing = columns.map(({ name, type }) =>
    key.includes(name) ? `o.${trinoIdentifier(name)}` : `CAST(NULL AS ${type})`,
  );
  const open = absent.type === 'mark' ? ` AND o.${deletedAt} IS NULL` : '';
  const union =
    absent.type === 'keep'
      ? ''
      : ` UNION ALL SELECT 'absent', ${missing.join(', ')} FROM ${target} AS o
      WHERE NOT EXISTS (SELECT 1 FROM load_rows AS r WHERE ${sameKey(key, 'r', 'o')})${open}`;
  const ends = absent.type === 'mark' ? "= 'delete'" : "IN ('delete', 'absent')";
  return [
    `MERGE INTO ${target} AS t USING (WITH load_rows AS (${rows})
      SELECT ${op}, ${names(columns)} FROM load_rows${union}) AS s ON ${sameKey(key, 't', 's')}`,
    `WHEN MATCHED AND s.${op} ${ends} THEN DELETE`,
    ...(absent.type === 'mark'
      ? [`WHEN MATCHED AND s.${op} = 'absent' THEN UPDATE SET ${deletedAt} = ${absent.moment}`]
      : []),
    ...updateClause(table, absent.type !== 'keep'),
    `WHEN NOT MATCHED AND s.${op} = 'upsert' THEN INSERT (${names(columns)}) VALUES (${names(columns, 's.')})`,
  ].join('\n');
}

/** A MERGE of no row, to be explained: it fails where the catalog has no MERGE. */
export function emptyMergeSql(table: TargetTable, target: string): string {
  const none = table.columns.map(({ name, type }) => `CAST(NULL AS ${type}) AS ${trinoIdentifier(name)}`);
  return mergeSql(table, target, `SELECT 'upsert' AS ${op}, ${none.join(', ')} WHERE false`, { type: 'keep' });
}

/** The clause WITH of `SHOW CREATE TABLE`, without the place of the files: a table that replaces another keeps its properties. */
export function keptProperties(created: string): string {
  const [, body] = /\nWITH \(\n([\s\S]*)\n\)\s*$/.exec(created) ?? [];
  if (body === undefined) return '';
  // A property begins a line with three spaces and its name; the values of lists stay on their line.
  const kept = body
    .split(/,\n(?= {3}\w+ = )/)
    .map((line) => line.trim())
    .filter((line) => !/^location = /.test(line));
  return kept.length === 0 ? '' : ` WITH (${kept.join(', ')})`;
}

/** One statement after which the table holds exactly these rows. Columns that the load lacks stay, without values. */
export function replaceSql({
  target,
  rows,
  there,
  brought,
  properties,
}: {
  readonly target: string;
  readonly rows: string;
  /** The columns of the table. */
  readonly there: readonly TableColumn[];
  /** The columns of the rows. */
  readonly brought: readonly { readonly name: string }[];
  readonly properties: string;
}): string {
  const come = new Set(brought.map(({ name }) => name.toLowerCase()));
  const values = there.map(({ name, type }) =>
    come.has(name) ? trinoIdentifier(name) : `CAST(NULL AS ${type}) AS ${trinoIdentifier(name)}`,
  );
  return `CREATE OR REPLACE TABLE ${target}${properties} AS SELECT ${values.join(', ')} FROM (${rows})`;
}

/** The name of a table in a catalog and a schema. Trino keeps names in small letters, whatever is written. */
export function tablePath(
  { catalog, schema }: { readonly catalog: string; readonly schema: string },
  table: string,
): string {
  return [catalog, schema, table].map((name) => trinoIdentifier(name.toLowerCase())).join('.');
}

import type { TargetTable } from './former/load.js';
import { trinoIdentifier } from './trino.js';

const op = trinoIdentifier('_op');
const deletedAt = trinoIdentifier('_deleted_at');

/** Names as a list in a statement of Trino. */
export function trinoNames(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${trinoIdentifier(name)}`).join(', ');
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
export type TrinoAbsent = { readonly type: 'keep' | 'delete' } | { readonly type: 'mark'; readonly moment: string };

/**
 * One MERGE that brings all rows of a load into the table. Trino has no WHEN NOT MATCHED BY SOURCE: the source names the absent keys
 * itself.
 * @param target SQL of the table's name
 * @param rows a query of the rows, beginning with `_op`
 */
export function trinoMerge(table: TargetTable, target: string, rows: string, absent: TrinoAbsent): string {
  const { columns, key } = table;
  const missing = columns.map(({ name }) => (key.includes(name) ? `o.${trinoIdentifier(name)}` : 'NULL'));
  const open = absent.type === 'mark' ? ` AND o.${deletedAt} IS NULL` : '';
  const union =
    absent.type === 'keep'
      ? ''
      : ` UNION ALL SELECT 'absent', ${missing.join(', ')} FROM ${target} AS o
      WHERE NOT EXISTS (SELECT 1 FROM load_rows AS r WHERE ${sameKey(key, 'r', 'o')})${open}`;
  const ends = absent.type === 'mark' ? "= 'delete'" : "IN ('delete', 'absent')";
  return [
    `MERGE INTO ${target} AS t USING (WITH load_rows AS (${rows})
      SELECT ${op}, ${trinoNames(columns)} FROM load_rows${union}) AS s ON ${sameKey(key, 't', 's')}`,
    `WHEN MATCHED AND s.${op} ${ends} THEN DELETE`,
    ...(absent.type === 'mark'
      ? [`WHEN MATCHED AND s.${op} = 'absent' THEN UPDATE SET ${deletedAt} = ${absent.moment}`]
      : []),
    ...updateClause(table, absent.type !== 'keep'),
    `WHEN NOT MATCHED AND s.${op} = 'upsert' THEN INSERT (${trinoNames(columns)}) VALUES (${trinoNames(columns, 's.')})`,
  ].join('\n');
}

/** A MERGE of no row, to be explained: it fails where the catalog has no MERGE. */
export function emptyTrinoMerge(table: TargetTable, target: string): string {
  const none = `SELECT 'upsert' AS ${op}, ${trinoNames(table.columns)} FROM ${target} WHERE false`;
  return trinoMerge(table, target, none, { type: 'keep' });
}

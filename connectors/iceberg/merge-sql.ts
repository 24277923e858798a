import { filePattern, type LoadAction } from '../../src/sdk/index.js';
import type { StagedLoad } from './load-engine.js';
import type { IcebergSchema } from './table-metadata.js';

/** What a load does to its table, as statements for DuckDB. */
export interface Change {
  /** Whether the new rows are all that the table has afterwards: they are written as if it had none. */
  readonly replaces: boolean;
  /** Copies what the load needs of the present rows, before the transaction. */
  copies(target: string): readonly string[];
  /** One delete at most, then one insert at most: each makes a snapshot, and the two come to one. */
  readonly remove: ((target: string) => string) | undefined;
  readonly insert: ((target: string) => string) | undefined;
  /** Rows that must be inserted at least; undefined for all rows of the load. */
  readonly inserted: number | undefined;
}

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function names(columns: readonly string[], of = ''): string {
  return columns.map((name) => `${of}${identifier(name)}`).join(', ');
}

export function sameKey(key: readonly string[], one = 't', other = 's'): string {
  return key.map((name) => `${one}.${identifier(name)} = ${other}.${identifier(name)}`).join(' AND ');
}

/** Makes the rows of files the view `_cdsync_stage`. */
export function stage(files: readonly string[]): string {
  return `CREATE OR REPLACE TEMP VIEW _cdsync_stage AS FROM read_parquet([${files.map((file) => literal(filePattern(file))).join(', ')}])`;
}

/** The staged rows that the table has afterwards. */
export function stagedRows({ type }: LoadAction): string {
  return type === 'merge' ? "(FROM _cdsync_stage WHERE _op = 'upsert')" : '_cdsync_stage';
}

const nothing = { copies: () => [], remove: undefined, insert: undefined, inserted: 0 } as const;

/** The statements of a load. @param upserts the number of rows of {@link stagedRows} */
export function changeOf(task: StagedLoad, schema: IcebergSchema, upserts: number): Change {
  const { load, sort } = task;
  const { action, table } = load;
  const own = table.columns.map(({ name }) => name);
  const ours = new Set(own.map((name) => name.toLowerCase()));
  /** Columns of the table that cdsync does not fill: those of somebody else. */
  const others = schema.fields.map(({ name }) => name).filter((name) => !ours.has(name.toLowerCase()));
  const order = sort.length === 0 ? '' : ` ORDER BY ${names(sort)}`;
  const rows = stagedRows(action);
  const insert = (target: string) => `INSERT INTO ${target} (${names(own)}) SELECT ${names(own)} FROM ${rows}${order}`;
  const replacesAll =
    action.type === 'replace' || (action.type === 'merge' && action.absent === 'delete' && others.length === 0);
  if (replacesAll) {
    if (upserts > 0) return { ...nothing, replaces: true, insert, inserted: upserts };
    return { ...nothing, replaces: false, remove: (target) => `DELETE FROM ${target}` };
  }
  if (action.type === 'append')
    return { ...nothing, replaces: false, insert: upserts === 0 ? undefined : insert, inserted: upserts };
  return mergeOf({ task, own, others, order, upserts });
}

/**
 * A merge is a delete of the rows that change and an insert of their new images. What the insert needs of the old rows, columns of
 * others and rows to be marked, is copied before.
 */
function mergeOf({
  task,
  own,
  others,
  order,
  upserts,
}: {
  readonly task: StagedLoad;
  readonly own: readonly string[];
  readonly others: readonly string[];
  readonly order: string;
  readonly upserts: number;
}): Change {
  const { action, table, deliveredAt } = task.load;
  const { key } = table;
  const absent = action.type === 'merge' ? action.absent : 'keep';
  const all = [...own, ...others];
  const staged = task.files.length > 0;
  const isStaged = staged ? `EXISTS (SELECT 1 FROM _cdsync_stage AS s WHERE ${sameKey(key)})` : 'false';
  const now = `${literal(deliveredAt)}::TIMESTAMPTZ`;
  const copies = (target: string) => [
    ...(others.length === 0
      ? []
      : [
          `CREATE OR REPLACE TEMP TABLE _cdsync_kept AS SELECT ${names([...key, ...others])} FROM ${target} AS t WHERE ${isStaged}`,
        ]),
    ...(absent === 'mark'
      ? [
          `CREATE OR REPLACE TEMP TABLE _cdsync_marked AS SELECT ${names(all, 't.')} FROM ${target} AS t
            WHERE _deleted_at IS NULL AND NOT ${isStaged}`,
          `UPDATE _cdsync_marked SET _deleted_at = ${now}`,
        ]
      : []),
  ];
  const parts: string[] = [];
  if (upserts > 0) {
    const rows = stagedRows(task.load.action);
    parts.push(
      others.length === 0
        ? `SELECT ${names(own)} FROM ${rows}`
        : `SELECT ${names(own, 's.')}, ${names(others, 't.')} FROM ${rows} AS s LEFT JOIN _cdsync_kept AS t ON ${sameKey(key)}`,
    );
  }
  if (absent === 'mark') parts.push(`SELECT ${names(all)} FROM _cdsync_marked`);
  const isMarked = absent === 'mark' ? ` OR (_deleted_at IS NULL AND NOT ${isStaged})` : '';
  const isGone = absent === 'delete' ? 'true' : `${isStaged}${isMarked}`;
  return {
    replaces: false,
    copies,
    remove: isGone === 'false' ? undefined : (target) => `DELETE FROM ${target} AS t WHERE ${isGone}`,
    insert:
      parts.length === 0
        ? undefined
        : (target) =>
            `INSERT INTO ${target} (${names(all)}) SELECT ${names(all)} FROM (${parts.join(' UNION ALL ')})${order}`,
    inserted: upserts,
  };
}

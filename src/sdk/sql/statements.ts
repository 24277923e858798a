import type { ColumnType } from '../column-type.js';
import type { Load, LoadColumn, TableColumn, TargetTable } from '../load.js';
import type { Change, FoundColumns, MergeTask, SqlDialect, Stage } from './dialect.js';

/** Names in quotes, separated by commas. @param prefix such as an alias and a point */
export function nameList(dialect: SqlDialect, names: readonly string[], prefix = ''): string {
  return names.map((name) => `${prefix}${dialect.identifier(name)}`).join(', ');
}

/** Names and types of columns, as CREATE TABLE has them. */
export function definitions({ identifier }: Pick<SqlDialect, 'identifier'>, columns: readonly TableColumn[]): string {
  return columns.map(({ name, type }) => `${identifier(name)} ${type}`).join(', ');
}

/** The columns of a table for staged rows. */
export function stagedColumns(columns: readonly LoadColumn[]): TableColumn[] {
  return columns.map(({ name, targetType: type }) => ({ name, type }));
}

/**
 * The stage of a load. If a person has narrowed a column of the table, the staged one is as narrow: so the server names each value
 * that it cannot hold, and does not refuse all rows.
 */
export function stageOf(
  dialect: SqlDialect,
  { table, data, change }: Load,
  existingColumns: FoundColumns | undefined,
): Stage {
  const types = new Map((change.create ? [] : (existingColumns?.columns ?? [])).map(({ name, type }) => [name, type]));
  for (const name of [...table.key, ...change.widen.map((column) => column.name)]) types.delete(name);
  const columns = data.columns.map((column) => {
    const type = types.get(column.name);
    const isNarrower = type !== undefined && dialect.isNarrower?.(type, column.targetType) === true;
    return isNarrower ? { ...column, targetType: type } : column;
  });
  return dialect.stage(table, columns);
}

/** A dialect with the usual statements for all that it leaves out. */
export function withDefaults<D extends SqlDialect>(dialect: D) {
  const { table: named, identifier } = dialect;
  const usual: Required<Pick<SqlDialect, 'create' | 'add' | 'widen' | 'comment' | 'clear'>> = {
    create: ({ name, columns }) => [`CREATE TABLE ${named(name)} (${definitions(dialect, columns)})`],
    add: ({ name }, columns) =>
      columns.map((column) => `ALTER TABLE ${named(name)} ADD COLUMN IF NOT EXISTS ${definitions(dialect, [column])}`),
    widen: ({ name }, column) => [
      `ALTER TABLE ${named(name)} ALTER COLUMN ${identifier(column.name)} SET DATA TYPE ${column.type}`,
    ],
    comment: (name, text) => [`COMMENT ON TABLE ${named(name)} IS ${dialect.literal(text)}`],
    clear: (target, columns) =>
      `UPDATE ${target} SET ${columns.map((name) => `${identifier(name)} = NULL`).join(', ')} WHERE 1 = 1`,
  };
  return { ...usual, ...dialect };
}

/** SQL that is true for rows of the same key. */
export function sameKey(dialect: SqlDialect, { table, t, s }: Pick<MergeTask, 'table' | 't' | 's'>): string {
  return sameNames(dialect, table.key, t, s);
}

/** SQL that is true if columns of two aliases are the same. */
export function sameNames(dialect: SqlDialect, names: readonly string[], t: string, s: string): string {
  return names.map((name) => `${t}.${dialect.identifier(name)} = ${s}.${dialect.identifier(name)}`).join(' AND ');
}

/** SQL that is true for staged rows of one kind. */
export function isOp(dialect: SqlDialect, s: string, op: 'upsert' | 'delete'): string {
  return `${s}.${dialect.identifier('_op')} = '${op}'`;
}

/** SQL that is true for rows that are not marked as deleted. @param prefix such as an alias and a point */
export function isLive(dialect: SqlDialect, prefix = ''): string {
  return `${prefix}${dialect.identifier('_deleted_at')} IS NULL`;
}

/** SQL that is true if two values differ. */
export function differSql(dialect: SqlDialect, one: string, other: string, kind?: ColumnType) {
  return dialect.differs?.(one, other, kind) ?? `${one} IS DISTINCT FROM ${other}`;
}

/** The assignments of a merge's update, and SQL that is true if they change a row; another `_synced_at` alone does not count. */
export function assignments(
  dialect: SqlDialect,
  { table, t, s, empty }: Pick<MergeTask, 'table' | 't' | 's' | 'empty'>,
): { readonly set: readonly (readonly [column: string, value: string])[]; readonly differs: string } {
  const values = table.columns.filter(({ name }) => !table.key.includes(name));
  const set = [
    ...values.map(({ name }): [string, string] => [dialect.identifier(name), `${s}.${dialect.identifier(name)}`]),
    ...empty.map((name): [string, string] => [dialect.identifier(name), 'NULL']),
  ];
  const compared = values.filter(({ name }) => name !== '_synced_at');
  const differs = [
    ...compared.map(({ name, kind }) =>
      differSql(dialect, `${t}.${dialect.identifier(name)}`, `${s}.${dialect.identifier(name)}`, kind),
    ),
    ...empty.map((name) => `${t}.${dialect.identifier(name)} IS NOT NULL`),
  ];
  return { set, differs: differs.length === 0 ? '1 = 0' : `(${differs.join(' OR ')})` };
}

/**
 * The changes of rows that a reload lacks.
 * @param remove the statement that deletes them
 * @param update the statement that changes them: `set` are assignments, `which` is nothing, or a condition and an AND
 * @param prefix of their columns, such as an alias and a point
 */
export function absentChanges(
  dialect: SqlDialect,
  { write, clear, moment }: MergeTask,
  { remove, update, prefix = '' }: { remove: string; update(set: string, which: string): string; prefix?: string },
): Change[] {
  if (write.absent === 'delete') return [{ sql: remove, rowEffect: -1 }];
  const changes: Change[] = [];
  const column = (name: string) => `${prefix}${dialect.identifier(name)}`;
  if (write.absent === 'mark') {
    const sql = update(`${column('_deleted_at')} = ${moment}`, `${isLive(dialect, prefix)} AND `);
    changes.push({ sql, rowEffect: 0 });
  }
  if (clear.length > 0)
    changes.push({ sql: update(clear.map((name) => `${column(name)} = NULL`).join(', '), ''), rowEffect: 0 });
  return changes;
}

/** A merge by DELETE … USING, UPDATE … FROM and INSERT … NOT EXISTS, as PostgreSQL and DuckDB write them. */
export function deleteUpdateInsert(dialect: SqlDialect, task: MergeTask): Change[] {
  const { table, target, stage, t, s, write } = task;
  const same = sameKey(dialect, task);
  const { set, differs } = assignments(dialect, task);
  const columns = table.columns.map(({ name }) => name);
  const isAbsent = `NOT EXISTS (SELECT 1 FROM ${stage} AS ${s} WHERE ${same})`;
  const changes: Change[] = [
    {
      sql: `DELETE FROM ${target} AS ${t} USING ${stage} AS ${s} WHERE ${isOp(dialect, s, 'delete')} AND ${same}`,
      rowEffect: -1,
    },
  ];
  if (set.length > 0)
    changes.push({
      sql: `UPDATE ${target} AS ${t} SET ${set.map(([name, value]) => `${name} = ${value}`).join(', ')}
        FROM ${stage} AS ${s} WHERE ${isOp(dialect, s, 'upsert')} AND ${same}${write.isReload ? ` AND ${differs}` : ''}`,
      rowEffect: 0,
    });
  changes.push({
    sql: `INSERT INTO ${target} (${nameList(dialect, columns)}) SELECT ${nameList(dialect, columns, `${s}.`)} FROM ${stage} AS ${s}
      WHERE ${isOp(dialect, s, 'upsert')} AND NOT EXISTS (SELECT 1 FROM ${target} AS ${t} WHERE ${same})`,
    rowEffect: 1,
  });
  const absent = absentChanges(dialect, task, {
    remove: `DELETE FROM ${target} AS ${t} WHERE ${isAbsent}`,
    update: (set, which) => `UPDATE ${target} AS ${t} SET ${set} WHERE ${which}${isAbsent}`,
  });
  return [...changes, ...absent];
}

/**
 * One MERGE of the staged rows, which reads the table once.
 * @param absent clauses for rows that the stage lacks
 */
export function mergeSql(
  dialect: SqlDialect,
  task: Pick<MergeTask, 'table' | 'target' | 'stage' | 't' | 's' | 'write' | 'empty'>,
  absent: readonly string[] = [],
): string {
  const { table, target, stage, t, s, write } = task;
  const columns = table.columns.map(({ name }) => name);
  const { set, differs } = assignments(dialect, task);
  const update = `UPDATE SET ${set.map(([name, value]) => `${name} = ${value}`).join(', ')}`;
  return [
    `MERGE INTO ${target} AS ${t} USING ${stage} AS ${s} ON ${sameKey(dialect, task)}`,
    `WHEN MATCHED AND ${isOp(dialect, s, 'delete')} THEN DELETE`,
    ...absent,
    ...(set.length === 0 ? [] : [`WHEN MATCHED${write.isReload ? ` AND ${differs}` : ''} THEN ${update}`]),
    `WHEN NOT MATCHED AND ${isOp(dialect, s, 'upsert')} THEN INSERT (${nameList(dialect, columns)}) VALUES (${nameList(dialect, columns, `${s}.`)})`,
  ].join('\n');
}

/** An alias that none of the names is. */
export function freeAlias(wanted: string, names: ReadonlySet<string>): string {
  return names.has(wanted) ? freeAlias(`${wanted}_`, names) : wanted;
}

/** SQL of a value of a column that has no text: most are numbers, doubles by their bits. */
function numberSql(dialect: SqlDialect, text: string, { kind }: ColumnType): string {
  if (kind === 'double' && /^[0-9a-f]{16}$/.test(text)) return String(Buffer.from(text, 'hex').readDoubleBE());
  return /^-?\d+(?:\.\d+)?$/.test(text) ? text : dialect.literal(text);
}

/** Keys in one statement that deletes erased rows: each statement may read the whole table. */
const erasedAtOnce = 200;

/** SQL conditions that are true for the rows of erased keys. @param keys for each, the text of every key column */
export function erasedSql(
  dialect: SqlDialect,
  { columns, key }: TargetTable,
  keys: readonly (readonly string[])[],
): string[] {
  const isErased = (texts: readonly string[]) => {
    const conditions = texts.map((text, index) => {
      const { name, kind } = columns.find((column) => column.name === key[index]) as TargetTable['columns'][number];
      const column = dialect.identifier(name);
      const value = dialect.canonical(column, kind);
      return value === undefined
        ? `${column} = ${numberSql(dialect, text, kind)}`
        : `${value} = ${dialect.literal(text)}`;
    });
    return `(${conditions.join(' AND ')})`;
  };
  const conditions: string[] = [];
  for (let from = 0; from < keys.length; from += erasedAtOnce)
    conditions.push(
      keys
        .slice(from, from + erasedAtOnce)
        .map(isErased)
        .join(' OR '),
    );
  return conditions;
}

/** Whether values that were there must be nowhere any more. */
export function removesValues({ erase, clear, empty, isReload }: Load): boolean {
  return erase.length > 0 || clear.length > 0 || (isReload && empty.length > 0);
}

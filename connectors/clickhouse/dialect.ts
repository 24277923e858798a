import { createHash } from 'node:crypto';
import {
  type Change,
  canonicalTexts,
  type MergeTask,
  nameList,
  type SqlDialect,
  sameKey,
  stagedColumns,
  type TableColumn,
  type TargetTable,
} from '../../src/sdk/index.js';
import { columnDefinition, deletedColumn, identifier, isComputed, literal, versionColumn } from './types.js';

const helperColumns = `${versionColumn} UInt64 DEFAULT 0, ${deletedColumn} UInt8 DEFAULT 0`;
const plainEngine = ' ENGINE = MergeTree ORDER BY tuple()';

/** Columns and engine of a table. With a key, the engine keeps the last row of each key. */
function definition({ key, isKeyed }: TargetTable, columns: readonly TableColumn[]): string {
  const parts = columns.map((column) => columnDefinition(column, isKeyed && key.includes(column.name)));
  if (!isKeyed) return `(${parts.join(', ')})${plainEngine}`;
  const order = key.map(identifier).join(', ');
  return `(${parts.join(', ')}, ${helperColumns}) ENGINE = ReplacingMergeTree(${versionColumn}, ${deletedColumn}) ORDER BY (${order})`;
}

/** How the names of the tables beside one begin, which are left if a delivery is killed. */
export function besideName(table: string): string {
  return `_cdsync_beside_${createHash('sha256').update(table).digest('hex').slice(0, 16)}_`;
}

/** The same texts as `canonicalText`. */
const canonical = canonicalTexts((column) => `toString(${column})`, {
  double: (column) => `leftPad(lower(hex(reinterpretAsUInt64(if(${column} = 0, 0., ${column})))), 16, '0')`,
  decimal: (column, { scale }) => `toDecimalString(${column}, ${scale})`,
  date: (column) => `toString(toInt32(${column}))`,
  timestamp: (column) => `toString(toUnixTimestamp64Micro(${column}))`,
  text: (column) => column,
  json: (column) => column,
});

/** Columns of the table that are not cdsync's. A row that is written again gets their values from the row before. */
function columnsOfOthers({ table, found, empty, clear }: MergeTask): readonly TableColumn[] {
  const ours = new Set([...table.columns.map(({ name }) => name), ...empty, ...clear]);
  return found.columns.filter(({ name, type }) => !ours.has(name) && !isComputed(type));
}

/** Staged rows, as new rows of a table. A deleted row keeps only its key. */
function insertStaged(dialect: SqlDialect, task: MergeTask, into: string): Change {
  const { table, target, stage, t, s, version } = task;
  const names = table.columns.map(({ name }) => name);
  const others = columnsOfOthers(task).map(({ name }) => name);
  const kept = others.map((name) => {
    const value = `${t}.${identifier(name)}`;
    return `if(${s}._op = 'delete', defaultValueOfArgumentType(${value}), ${value})`;
  });
  const before =
    others.length === 0
      ? ''
      : ` LEFT JOIN (SELECT ${nameList(dialect, [...table.key, ...others])} FROM ${target}) AS ${t} ON ${sameKey(dialect, task)}`;
  const values = [...names.map((name) => `${s}.${identifier(name)}`), ...kept, String(version), `${s}._op = 'delete'`];
  return {
    sql: `INSERT INTO ${into} (${nameList(dialect, [...names, ...others, versionColumn, deletedColumn])})
      SELECT ${values.join(', ')} FROM ${stage} AS ${s}${before}`,
  };
}

/** Rows of the table that a reload lacks: they stay, perhaps marked, and without the values that must go. */
function insertAbsent(dialect: SqlDialect, task: MergeTask, into: string): Change {
  const { table, target, stage, write, empty, clear, moment, version } = task;
  const gone = new Set([...empty, ...clear]);
  const names = [...table.columns, ...columnsOfOthers(task)].map(({ name }) => name).filter((name) => !gone.has(name));
  const isMarked = (name: string) => name === '_deleted_at' && write.absent === 'mark';
  const values = names.map((name) => (isMarked(name) ? `coalesce(${identifier(name)}, ${moment})` : identifier(name)));
  const key = nameList(dialect, table.key);
  return {
    sql: `INSERT INTO ${into} (${nameList(dialect, [...names, versionColumn])}) SELECT ${values.join(', ')}, ${version}
      FROM ${target} WHERE (${key}) NOT IN (SELECT ${key} FROM ${stage})`,
  };
}

/**
 * What ClickHouse writes differently. It changes no rows: changed ones are added with a higher version, and all rows of a table are
 * replaced by a swap of two tables. So a step that is repeated has the same result.
 * @param keepsLast whether a table has the engine that keeps the last row of each key
 * @param attempt differs between deliveries: none writes into the tables of another one
 */
export function clickhouseDialect(keepsLast: (table: string) => boolean, attempt: string): SqlDialect {
  /** Tables for staged rows, and for all rows of a reload, with which the table is then swapped. */
  const beside = (table: string) => {
    const begin = `${besideName(table)}${attempt}`;
    return { stage: identifier(`${begin}_rows`), fresh: identifier(`${begin}_all`) };
  };
  const dialect: SqlDialect = {
    commit: 'steps',
    stamps: 'load',
    addsState: true,
    foldsTables: false,
    hashing: {
      hash: (text) => `lower(hex(MD5(${text})))`,
      number: (hex) => `bitShiftRight(reinterpretAsUInt64(reverse(unhex(substring(${hex}, 1, 16)))), 4)`,
      sum: (number) => `toString(sum(toUInt128(${number})))`,
    },
    own: { text: 'Nullable(String)', integer: 'Nullable(Int64)', tail: plainEngine },
    identifier,
    table: identifier,
    literal,
    moment: (iso) => `parseDateTime64BestEffort(${literal(iso)}, 6, 'UTC')`,
    canonical,
    noValue: (type) => `CAST(NULL AS Nullable(${type}))`,
    create: (table) => [`CREATE TABLE ${identifier(table.name)} ${definition(table, table.columns)}`],
    add: ({ name }, columns) => [
      `ALTER TABLE ${identifier(name)} ${columns.map((column) => `ADD COLUMN IF NOT EXISTS ${columnDefinition(column, false)}`).join(', ')}`,
    ],
    widen: ({ name }, column) => [`ALTER TABLE ${identifier(name)} MODIFY COLUMN ${columnDefinition(column, false)}`],
    stage: (table, columns) => {
      const { stage, fresh } = beside(table.name);
      const staged = stagedColumns(columns).map((column) =>
        columnDefinition(column, table.isKeyed && table.key.includes(column.name)),
      );
      return {
        name: stage,
        create: [`CREATE TABLE ${stage} (${staged.join(', ')})${plainEngine}`],
        // Also the table of a reload: once the two are swapped, it has the rows from before.
        drop: [stage, fresh].map((name) => `DROP TABLE IF EXISTS ${name} SYNC`),
      };
    },
    merge: (task) => {
      const { table, target, write, found } = task;
      if (!write.isReload) return [insertStaged(dialect, task, target)];
      const { fresh } = beside(table.name);
      const like = keepsLast(table.name)
        ? `AS ${target}`
        : definition(table, [...table.columns, ...columnsOfOthers(task)]);
      return [
        { sql: `CREATE TABLE ${fresh} ${like} COMMENT ${literal(found.comment ?? '')}` },
        insertStaged(dialect, task, fresh),
        ...(write.absent === 'delete' ? [] : [insertAbsent(dialect, task, fresh)]),
        { sql: `EXCHANGE TABLES ${target} AND ${fresh}` },
      ];
    },
    clear: (target, columns) =>
      `ALTER TABLE ${target} UPDATE ${columns.map((name) => `${identifier(name)} = NULL`).join(', ')} WHERE 1`,
    comment: (name, text) => [`ALTER TABLE ${identifier(name)} MODIFY COMMENT ${literal(text)}`],
  };
  return dialect;
}

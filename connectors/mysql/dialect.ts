import {
  absentChanges,
  assignments,
  type Change,
  canonicalTexts,
  type Digest,
  isOp,
  type MergeTask,
  nameList,
  type RowHashing,
  type SqlDialect,
  sameKey,
  shortBytes,
  stagedColumns,
  type TableColumn,
  type TargetTable,
} from '../../src/sdk/index.js';
import { errnoOf } from './errors.js';
import { columnDefinition, identifier, isNarrower } from './types.js';

/** If others lock a table or a row for longer than this, the load is repeated. */
export const lockSeconds = 60;
/** A stamp waits no longer for readers, because later readers wait for it: the least that MySQL takes. */
const briefSeconds = 1;
const lockWaitTimeout = 1205;

const stageName = identifier('_cdsync_stage');

/** Backslashes escape in MySQL. */
function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/**
 * The hash of a row. MySQL 9.6 and later have md5() only as a component, which is not there by default; MariaDB has no such limit, and md5
 * costs less. Of both, concat() makes no text beyond `max_allowed_packet`: so a long text counts by its own hash.
 */
export function hashOf(collation: string): Pick<RowHashing, 'hash'> & { readonly digest: Digest } {
  if (collation !== 'utf8mb4_0900_bin') return { digest: 'short_md5', hash: (text) => `md5(${text})` };
  return { digest: 'sha256', hash: (text) => `sha2(${text}, 256)` };
}

/** A text in the characters of cdsync's own columns. */
const asUtf8 = (column: string) => `convert(${column} USING utf8mb4)`;

/** The same texts as `canonicalText`. The bits of a double are lost, and MySQL has its own layout of JSON: these are compared as values. */
const canonicalOf = ({ hash }: Pick<RowHashing, 'hash'>) =>
  canonicalTexts((column) => `cast(${column} AS char)`, {
    boolean: (column) => `CASE ${column} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE cast(${column} AS char) END`,
    date: (column) => `cast(datediff(${column}, '1970-01-01') AS char)`,
    timestamp: (column) => `cast(timestampdiff(MICROSECOND, '1970-01-01', ${column}) AS char)`,
    text: (column) => `CASE WHEN octet_length(${column}) > ${shortBytes} THEN ${hash(column)} ELSE ${column} END`,
    double: null,
    json: null,
  });

/** A merge by joins: a statement may name a temporary table only once. */
function merge(dialect: SqlDialect, task: MergeTask): Change[] {
  const { table, target, stage, t, s, write } = task;
  const same = sameKey(dialect, task);
  const { set, differs } = assignments(dialect, task);
  const names = table.columns.map(({ name }) => name);
  const missing = `${target} AS ${t} LEFT JOIN ${stage} AS ${s} ON ${same}`;
  const changes: Change[] = [
    {
      sql: `DELETE ${t} FROM ${target} AS ${t} JOIN ${stage} AS ${s} ON ${same} WHERE ${isOp(dialect, s, 'delete')}`,
      rowEffect: -1,
    },
  ];
  if (set.length > 0)
    changes.push({
      sql: `UPDATE ${target} AS ${t} JOIN ${stage} AS ${s} ON ${same}
        SET ${set.map(([name, value]) => `${t}.${name} = ${value}`).join(', ')}
        WHERE ${isOp(dialect, s, 'upsert')}${write.isReload ? ` AND ${differs}` : ''}`,
      rowEffect: 0,
    });
  // Not ON DUPLICATE KEY: that also reacts to any other unique index of the table.
  changes.push({
    sql: `INSERT INTO ${target} (${nameList(dialect, names)}) SELECT ${nameList(dialect, names, `${s}.`)}
      FROM ${stage} AS ${s} LEFT JOIN ${target} AS ${t} ON ${same}
      WHERE ${isOp(dialect, s, 'upsert')} AND ${t}.${identifier(table.key[0] as string)} IS NULL`,
    rowEffect: 1,
  });
  const absent = absentChanges(dialect, task, {
    remove: `DELETE ${t} FROM ${missing} WHERE ${s}._op IS NULL`,
    update: (assigned, which) => `UPDATE ${missing} SET ${assigned} WHERE ${which}${s}._op IS NULL`,
    prefix: `${t}.`,
  });
  return [...changes, ...absent];
}

/** Options of {@link mysqlDialect}. */
interface DialectOptions {
  /** Under it, texts are equal only if they are the same, byte for byte. */
  readonly collation: string;
  /** Whether the server takes names of tables that differ only in case for one. */
  readonly foldsTables: boolean;
  /** SQL of the names of columns to which a person has given other characters or another collation. */
  readonly altered?: ReadonlySet<string>;
}

/**
 * The SQL that MySQL and MariaDB write differently. DDL commits alone, so it precedes the rows, and only a new table or a reload gets a
 * stamp.
 */
export function mysqlDialect({ collation, foldsTables, altered = new Set() }: DialectOptions): SqlDialect {
  const key = ({ key: names, columns }: TargetTable) => columns.filter(({ name }) => names.includes(name));
  const column = (table: TargetTable, { name, type }: TableColumn) =>
    columnDefinition({ name, type, key: table.isKeyed ? key(table) : [], collation });
  const definition = (table: TargetTable, columns: readonly TableColumn[]) => {
    const parts = columns.map((each) => column(table, each));
    if (table.isKeyed) parts.push(`PRIMARY KEY (${table.key.map(identifier).join(', ')})`);
    return `(${parts.join(', ')}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4`;
  };
  const exact = `CHARACTER SET utf8mb4 COLLATE ${collation}`;
  const hashing = hashOf(collation);
  const canonical = canonicalOf(hashing);
  const exactly = (text: string) => `${asUtf8(text)} COLLATE ${collation}`;
  const isAltered = (column: string) => [...altered].some((name) => column.endsWith(name));
  const dialect: SqlDialect = {
    commit: 'transaction',
    stamps: 'reload',
    foldsTables,
    hashing: {
      join: (texts) => (texts.length === 1 ? (texts[0] as string) : `concat(${texts.join(', ')})`),
      ...hashing,
      number: (hex) => `cast(conv(substr(${hex}, 1, 15), 16, 10) AS unsigned)`,
      sum: (number) => `cast(coalesce(sum(${number}), 0) AS char)`,
    },
    own: {
      text: `longtext ${exact}`,
      integer: 'bigint',
      stateTail: ', PRIMARY KEY (destination(64), stream(64), table_name(192))',
      tail: ' ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4',
    },
    identifier,
    table: identifier,
    literal,
    moment: (iso) => literal(iso.replace('T', ' ').replace('Z', '')),
    canonical: (column, kind) => {
      const text = canonical(kind.kind === 'text' && isAltered(column) ? asUtf8(column) : column, kind);
      return text && `${text} COLLATE ${collation}`;
    },
    noValue: () => 'NULL',
    differs: (one, other, kind) =>
      kind?.kind === 'text' && isAltered(one)
        ? `NOT (${exactly(one)} <=> ${exactly(other)})`
        : `NOT (${one} <=> ${other})`,
    create: (table) => [`CREATE TABLE ${identifier(table.name)} ${definition(table, table.columns)}`],
    add: (table, columns) => [
      `ALTER TABLE ${identifier(table.name)} ${columns.map((candidate) => `ADD COLUMN ${column(table, candidate)}`).join(', ')}`,
    ],
    widen: (table, candidate) => [`ALTER TABLE ${identifier(table.name)} MODIFY COLUMN ${column(table, candidate)}`],
    stage: (table, columns) => ({
      name: stageName,
      // Outside of the transaction, because DDL would commit it. Only this connection sees the table.
      create: [`CREATE TEMPORARY TABLE ${stageName} ${definition(table, stagedColumns(columns))}`],
      drop: [`DROP TEMPORARY TABLE IF EXISTS ${stageName}`],
    }),
    isNarrower,
    merge: (task) => merge(dialect, task),
    briefly: {
      begin: `SET SESSION lock_wait_timeout = ${briefSeconds}`,
      end: `SET SESSION lock_wait_timeout = ${lockSeconds}`,
      isInUse: (error) => errnoOf(error) === lockWaitTimeout,
    },
    comment: (name, text) => [`ALTER TABLE ${identifier(name)} COMMENT = ${literal(text)}`],
  };
  return dialect;
}

import { quoteIdentifier, sqlText } from '../../core/sql.js';
import { type ColumnType, isSameDuckdbType } from '../column-type.js';
import type { TableConnector } from '../destination.js';
import type { ColumnMapping } from '../load.js';
import type { Change, MergeTask, SqlDialect } from './dialect.js';
import { canonicalText, duckdbHashing } from './row-sum.js';
import {
  absentChanges,
  definitions,
  deleteUpdateInsert,
  isOp,
  nameList,
  sameKey,
  stagedColumns,
} from './statements.js';

const duckdbNames = { identifier: quoteIdentifier };

/**
 * The SQL that DuckDB writes differently. A transaction holds DDL too.
 * @param database SQL of the name of an attached database, if it is not the one that was opened
 */
export function duckdbDialect(schema: string, database?: string): SqlDialect {
  const within = database === undefined ? '' : `${database}.`;
  const table = (name: string) => `${within}${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
  const dialect: SqlDialect = {
    commit: 'transaction_with_ddl',
    stamps: 'load',
    foldsTables: true,
    hashing: duckdbHashing(),
    own: { text: 'VARCHAR', integer: 'BIGINT', stateTail: ', PRIMARY KEY (destination, stream, table_name)' },
    ...duckdbNames,
    table,
    literal: sqlText,
    moment: (iso) => `${sqlText(iso)}::TIMESTAMPTZ`,
    canonical: canonicalText,
    stage: (_, columns) => ({
      name: 'temp._cdsync_stage',
      create: [`CREATE TEMP TABLE _cdsync_stage (${definitions(duckdbNames, stagedColumns(columns))})`],
      drop: ['DROP TABLE IF EXISTS temp._cdsync_stage'],
    }),
  };
  // A reload changes few of the rows that it stages.
  const merge = (task: MergeTask) => (task.write.isReload ? deleteUpdateInsert : deleteInsert)(dialect, task);
  return { ...dialect, merge };
}

/**
 * The dialect for large rows, see {@link DestinationContext.rowsTogether}: no hash has a copy of long texts, and no join has values.
 */
export function largeRowsDialect(schema: string, rowsTogether: number): SqlDialect {
  const dialect = duckdbDialect(schema);
  const hashing = duckdbHashing('short_md5');
  return { ...dialect, hashing, rowsTogether, merge: (task) => deleteInsert(dialect, task) };
}

/**
 * A merge without an UPDATE, which joins the values, and after which DuckDB writes all values again of each row group with a changed
 * row: with 1.3 % changed, the whole table. Columns of others need one, and unique indexes, which still have the deleted keys until the commit.
 */
function deleteInsert(dialect: SqlDialect, task: MergeTask): Change[] {
  const { table, target, stage, t, s, empty } = task;
  const names = table.columns.map(({ name }) => name);
  const filled = new Set(names.map((name) => name.toLowerCase()));
  const isShared = task.found.columns.some(({ name }) => !filled.has(name.toLowerCase()));
  if (empty.length > 0 || isShared || task.found.isIndexed === true) return deleteUpdateInsert(dialect, task);
  const same = sameKey(dialect, task);
  const isAbsent = `NOT EXISTS (SELECT 1 FROM ${stage} AS ${s} WHERE ${same})`;
  return [
    { sql: `DELETE FROM ${target} AS ${t} USING ${stage} AS ${s} WHERE ${same}`, rowEffect: -1 },
    {
      sql: `INSERT INTO ${target} (${nameList(dialect, names)})
        SELECT ${nameList(dialect, names, `${s}.`)} FROM ${stage} AS ${s} WHERE ${isOp(dialect, s, 'upsert')}`,
      rowEffect: 1,
    },
    ...absentChanges(dialect, task, {
      remove: `DELETE FROM ${target} AS ${t} WHERE ${isAbsent}`,
      update: (set, which) => `UPDATE ${target} AS ${t} SET ${set} WHERE ${which}${isAbsent}`,
    }),
  ];
}

const plain = {
  boolean: 'BOOLEAN',
  int64: 'BIGINT',
  double: 'DOUBLE',
  text: 'VARCHAR',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  date: 'DATE',
} as const;

/**
 * A type as DuckDB spells it.
 * @param int128 of an integer of 128 bits: Parquet and DuckLake have none, but decimals of 38 digits
 * @param json of JSON
 */
export function duckdbType(
  type: ColumnType,
  int128: 'HUGEINT' | 'DECIMAL(38,0)',
  json: 'JSON' | 'VARCHAR' = 'JSON',
): string {
  switch (type.kind) {
    case 'int128':
      return int128;
    case 'json':
      return json;
    case 'decimal':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'list':
      return `${duckdbType(type.element, int128, json)}[]`;
    case 'struct':
      return `STRUCT(${type.fields.map(({ name, type: of }) => `${quoteIdentifier(name)} ${duckdbType(of, int128, json)}`).join(', ')})`;
    default:
      return plain[type.kind];
  }
}

/**
 * Whether DDL of DuckDB makes every value of one type one of the other: members of structs may be added, elements of lists widen.
 * @param widens the same for types that have no parts
 */
export function duckdbWidens(
  declared: ColumnType,
  current: ColumnType,
  widens: (declared: ColumnType, now: ColumnType) => boolean,
): boolean {
  if (declared.kind === 'struct' && current.kind === 'struct') {
    return declared.fields.every((field) => {
      const currentField = current.fields.find(({ name }) => name.toLowerCase() === field.name.toLowerCase());
      return currentField !== undefined && duckdbWidens(field.type, currentField.type, widens);
    });
  }
  if (declared.kind === 'list' && current.kind === 'list')
    return duckdbWidens(declared.element, current.element, widens);
  return widens(declared, current);
}

/**
 * The types of a destination that has those of DuckDB.
 * @param int128 of a table's integers of 128 bits: in files they are decimals
 * @param widens whether DDL makes further values of one type, without parts, values of another
 */
export function duckdbTypes(
  int128: 'HUGEINT' | 'DECIMAL(38,0)',
  widens: (from: ColumnType, to: ColumnType) => boolean = (from, to) => from.kind === 'int64' && to.kind === 'int128',
): Required<Pick<TableConnector, 'widens' | 'isTypeOf'>> & { mapColumn(type: ColumnType): ColumnMapping } {
  const spelled = (type: ColumnType) => duckdbType(type, int128);
  return {
    mapColumn: (type) => {
      const inFile = duckdbType(type, 'DECIMAL(38,0)');
      return inFile === duckdbType(type, 'HUGEINT') ? { type: inFile } : { type: spelled(type), as: inFile };
    },
    isTypeOf: isSameDuckdbType,
    widens: (declared, current) =>
      duckdbWidens(declared, current, (from, to) => {
        // A stream turns integers into doubles only if all of them are at most 2^53 from zero.
        const isDouble = from.kind === 'int64' && to.kind === 'double';
        return spelled(from) === spelled(to) || isDouble || widens(from, to);
      }),
  };
}

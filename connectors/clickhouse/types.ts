import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** Columns that cdsync adds to every table: the number of the load that brought a row, and whether the row is deleted. */
export const versionColumn = '_cdsync_version';
export const deletedColumn = '_cdsync_deleted';

/** The days that Date32 and DateTime64 can hold. */
const days = { first: '1900-01-01', last: '2299-12-31' };

/** Types are written without Nullable(…): every column is nullable, except those of the key. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'Bool' };
    case 'int64':
      return { type: 'Int64' };
    case 'int128':
      // As text: DuckDB writes 128-bit integers into Parquet as doubles.
      return { type: 'Int128', as: 'VARCHAR' };
    case 'decimal':
      return { type: `Decimal(${type.precision}, ${type.scale})` };
    case 'double':
      return { type: 'Float64' };
    case 'timestamp':
      return { type: "DateTime64(6, 'UTC')", limits: { days } };
    case 'date':
      return { type: 'Date32', limits: { days } };
    case 'text':
      return { type: 'String' };
    case 'json':
    case 'list':
    case 'struct':
      return { type: 'String', as: 'JSON' };
  }
}

/** The suffix that {@link described} gives to the type of a column that is neither nullable nor in the key. */
const notNull = ' not nullable';

/** Int64 may become Float64: a stream turns integers into doubles only if none of them exceeds 2^53. */
export function widens(from: string, to: string): boolean {
  if (from === `${to}${notNull}`) return true;
  if (to === 'Int64') return /^(Int(8|16|32)|UInt(8|16|32))$/.test(from);
  if (to === 'String') return /^(FixedString|LowCardinality\(String\)|Enum)/.test(from);
  return from === 'Int64' && (to === 'Int128' || to === 'Float64');
}

/** The type of an existing column, as {@link mapColumn} spells it. */
export function described(type: string, isKey: boolean): string {
  const inner = /^Nullable\((.*)\)$/.exec(type)?.[1];
  if (inner !== undefined) return inner;
  return isKey || type.startsWith('LowCardinality') ? type : `${type}${notNull}`;
}

export function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** A text as SQL. */
export function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export function names(columns: readonly { readonly name: string }[]): string {
  return columns.map(({ name }) => identifier(name)).join(', ');
}

export function columnDefinition({ name, type }: { readonly name: string; readonly type: string }, isKey: boolean) {
  return `${identifier(name)} ${isKey ? type : `Nullable(${type})`}`;
}

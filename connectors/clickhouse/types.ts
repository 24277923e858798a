import { mapsColumns, type SqlRow, type TableColumn } from '../../src/sdk/index.js';

/** Columns that cdsync adds to every table: the number of the load that wrote a row, and whether the row is deleted. */
export const versionColumn = '_cdsync_version';
export const deletedColumn = '_cdsync_deleted';

/** The days that Date32 and DateTime64 can hold. */
const days = { first: '1900-01-01', last: '2299-12-31' };

/** Types are written without Nullable(…): every column is nullable, except those of the key. */
export const mapColumn = mapsColumns({
  boolean: 'Bool',
  int64: 'Int64',
  // As text: DuckDB writes 128-bit integers into Parquet as doubles.
  int128: { type: 'Int128', as: 'VARCHAR' },
  decimal: ({ precision, scale }) => `Decimal(${precision}, ${scale})`,
  double: 'Float64',
  timestamp: { type: "DateTime64(6, 'UTC')", limits: { days } },
  date: { type: 'Date32', limits: { days } },
  text: 'String',
  json: { type: 'String', as: 'JSON' },
});

const notNull = ' not nullable';

/** The type of a column as `system.columns` has it, as {@link mapColumn} spells it; with a suffix if cdsync would not make it so. */
export function described({ type, default_kind: kind, is_in_sorting_key: isKey }: SqlRow): string {
  const plain = String(type);
  if (kind !== '' && kind !== 'DEFAULT') return `${plain} ${String(kind).toLowerCase()}`;
  const inner = /^Nullable\((.*)\)$/.exec(plain)?.[1];
  return inner ?? (Number(isKey) === 1 ? plain : `${plain}${notNull}`);
}

/** Whether ClickHouse itself computes the values of a column. */
export function isComputed(type: string): boolean {
  return / (?:materialized|alias|ephemeral)$/.test(type);
}

export function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** A text as SQL. */
export function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** @param isKey columns of the key are not nullable */
export function columnDefinition({ name, type }: TableColumn, isKey: boolean): string {
  if (type.endsWith(notNull)) return `${identifier(name)} ${type.slice(0, -notNull.length)}`;
  return `${identifier(name)} ${isKey ? type : `Nullable(${type})`}`;
}

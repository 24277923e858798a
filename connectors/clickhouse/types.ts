import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** Columns of cdsync's own in every table: the number of the load that brought a row, and whether the row is deleted. */
export const versionColumn = '_cdsync_version';
export const deletedColumn = '_cdsync_deleted';

/** What Date32 and DateTime64 hold. */
const days = { first: '1900-01-01', last: '2299-12-31' };

/** Without Nullable(…), which every column is but those of the key. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'Bool' };
    case 'int64':
      return { type: 'Int64' };
    case 'int128':
      // As text: DuckDB writes integers of 128 bits as doubles into Parquet.
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

/** What {@link described} calls a column that holds no NULL and is not of the key. */
const notNull = ' not nullable';

/** Integers become doubles only where the stream has seen none beyond 2^53. */
export function widens(from: string, to: string): boolean {
  if (from === `${to}${notNull}`) return true;
  if (to === 'Int64') return /^(Int(8|16|32)|UInt(8|16|32))$/.test(from);
  if (to === 'String') return /^(FixedString|LowCardinality\(String\)|Enum)/.test(from);
  return from === 'Int64' && (to === 'Int128' || to === 'Float64');
}

/** The type of a column that is there, in the words of {@link mapColumn}. */
export function described(type: string, isKey: boolean): string {
  const inner = /^Nullable\((.*)\)$/.exec(type)?.[1];
  if (inner !== undefined) return inner;
  return isKey || type.startsWith('LowCardinality') ? type : `${type}${notNull}`;
}

export function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

export function columnDefinition({ name, type }: { readonly name: string; readonly type: string }, isKey: boolean) {
  return `${identifier(name)} ${isKey ? type : `Nullable(${type})`}`;
}

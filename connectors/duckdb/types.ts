import { type ColumnMapping, type ColumnType, duckdbType, duckdbWidens } from '../../src/sdk/index.js';

/** Every type stays the same. Only 128-bit integers travel as decimals, because Parquet has no such integers. */
export function mapColumn(type: ColumnType): ColumnMapping {
  const [inTable, inFile] = [duckdbType(type, 'HUGEINT'), duckdbType(type, 'DECIMAL(38,0)')];
  return inTable === inFile ? { type: inTable } : { type: inTable, as: inFile };
}

/** Numbers and members of structs may only become more. */
export function widens(declared: ColumnType, now: ColumnType): boolean {
  return duckdbWidens(declared, now, (from, to) =>
    from.kind === 'int64'
      ? ['int64', 'int128', 'double'].includes(to.kind)
      : duckdbType(from, 'HUGEINT') === duckdbType(to, 'HUGEINT'),
  );
}

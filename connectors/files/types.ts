import { type ColumnMapping, type ColumnType, duckdbType, duckdbWidens } from '../../src/sdk/index.js';

/** A type as the manifest spells it, which is DuckDB's spelling. Parquet has no integer of 128 bits. */
function spelled(type: ColumnType): string {
  return duckdbType(type, 'DECIMAL(38,0)');
}

/** The type of a column in the manifest; `formats.ts` says how each format writes it. */
export function mapColumn(type: ColumnType): ColumnMapping {
  const inFile = spelled(type);
  return inFile === duckdbType(type, 'HUGEINT') ? { type: inFile } : { type: inFile, as: inFile };
}

function digitsOf(type: ColumnType): { whole: number; scale: number } | undefined {
  if (type.kind === 'int64') return { whole: 19, scale: 0 };
  if (type.kind === 'int128') return { whole: 38, scale: 0 };
  return type.kind === 'decimal' ? { whole: type.precision - type.scale, scale: type.scale } : undefined;
}

/** Whether a column of the one type can become one of the other without losing a value. */
export function widens(declared: ColumnType, now: ColumnType): boolean {
  return duckdbWidens(declared, now, (from, to) => {
    // A stream turns integers into doubles only if none of them exceeds 2^53.
    if (spelled(from) === spelled(to) || (from.kind === 'int64' && to.kind === 'double')) return true;
    const [small, large] = [digitsOf(from), digitsOf(to)];
    return small !== undefined && large !== undefined && small.whole <= large.whole && small.scale <= large.scale;
  });
}

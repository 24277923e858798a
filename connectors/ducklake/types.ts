import { type ColumnMapping, type ColumnType, duckdbType, duckdbWidens } from '../../src/sdk/index.js';

/** Every type stays the same; only 128-bit integers become decimals without a fraction: DuckLake writes them as doubles. */
export function mapColumn(type: ColumnType): ColumnMapping {
  const mapped = duckdbType(type, 'DECIMAL(38,0)');
  return mapped === duckdbType(type, 'HUGEINT') ? { type: mapped } : { type: mapped, as: mapped };
}

/** BIGINT may become DOUBLE: a stream turns integers into doubles only if none of them exceeds 2^53. */
export function widens(declared: ColumnType, now: ColumnType): boolean {
  return duckdbWidens(declared, now, (from, to) =>
    from.kind === 'int64' ? ['int64', 'int128', 'double'].includes(to.kind) : spelled(from) === spelled(to),
  );
}

function spelled(type: ColumnType): string {
  return duckdbType(type, 'DECIMAL(38,0)');
}

import { type ColumnType, duckdbTypes } from '../../src/sdk/index.js';

function digitsOf(type: ColumnType): { whole: number; scale: number } | undefined {
  if (type.kind === 'int64') return { whole: 19, scale: 0 };
  if (type.kind === 'int128') return { whole: 38, scale: 0 };
  return type.kind === 'decimal' ? { whole: type.precision - type.scale, scale: type.scale } : undefined;
}

/** The types of the manifest; `formats.ts` says how each format writes them. Parquet has no integer of 128 bits. */
export const filesTypes = duckdbTypes('DECIMAL(38,0)', (from, to) => {
  const [small, large] = [digitsOf(from), digitsOf(to)];
  return small !== undefined && large !== undefined && small.whole <= large.whole && small.scale <= large.scale;
});

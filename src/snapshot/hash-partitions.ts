/** What a join takes for each key of either side: its text, its hash, where its row is, and DuckDB's table. Measured: 60 to 90. */
const bytesPerKey = 100;
/** The part of the memory that one join may take. */
const joinShare = 0.25;

/** How many keys a join may hold at once, on both sides together. */
export function keysAtOnce(memoryMb: number): number {
  return Math.max(1, Math.floor((memoryMb * 1_000_000 * joinShare) / bytesPerKey));
}

/**
 * SQL conditions that divide rows by the hash of their column `key`: rows with equal keys meet the same condition, each row meets one.
 * So a join may be made piece by piece.
 * @param keys how many there are on both sides
 */
export function hashPartitions(keys: number, atOnce: number): readonly string[] {
  const count = Math.ceil(keys / atOnce);
  if (count <= 1) return ['true'];
  return Array.from({ length: count }, (_, bucket) => `hash(key) % ${count} = ${bucket}`);
}

import { ColumnSet, holdNegativeZero } from '../../columns/columns.js';
import { hashVersion } from '../../columns/row-hash.js';
import { quoteIdentifier } from '../../core/sql.js';
import { hashesOf } from '../../snapshot/large-rows.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { addKeys, keyHash } from '../../snapshot/verify-parquet.js';
import type { Session } from '../../storage/duckdb.js';

/** Counts and hashes of a table, computed by DuckDB. */
export interface TableSummary {
  readonly rows: number;
  readonly values: ReadonlyMap<string, number>;
  readonly keySum: number;
  /** XOR of the rows' hashes, computed now from all columns. */
  readonly hashes: string;
  /** XOR of the hashes of tracked columns alone. */
  readonly trackedHashes: string;
  /** XOR of the stored hashes; undefined if another version computed them. */
  readonly keptHashes: string | undefined;
  /** Of {@link rowSizesOf}. */
  readonly together: number | undefined;
}

export async function summarizeTable(
  session: Session,
  state: StreamState,
  { table, keys, together }: { table: string; keys: string; together: number | undefined },
): Promise<TableSummary> {
  const { list } = ColumnSet.restore(state.columns);
  // Columns that are not tracked are compared too.
  const all = list.map(({ name, type, form }) => ({ name, type, form }));
  const valueCounts = list.map(({ name }, index) => `count(${quoteIdentifier(name)}) AS c${index}`);
  const isPartly = list.some(({ untracked }) => untracked);
  const [counts] = await session.rows(`SELECT count(*) AS rows, ${valueCounts.join(', ')} FROM ${table}`);
  const rows = { table, together };
  const hashes = await hashesOf(session, rows, all);
  const [kept] = await session.rows(`SELECT bit_xor(hash)::VARCHAR AS hashes, version() AS version FROM ${keys}`);
  // DuckDB loses the sign of zero in a block of zeros alone; the stored hashes still have it.
  const isComparable = state.hash_version === hashVersion(String(kept?.version)) && !holdNegativeZero(state.columns);
  let keySum = 0;
  const texts = state.key.map((name) => {
    const { type } = list.find((column) => column.name === name) ?? { type: '' };
    const value = quoteIdentifier(name);
    return /^(TIMESTAMP|DATE)/.test(type) ? `epoch_ms(${value})::VARCHAR` : `${value}::VARCHAR`;
  });
  for await (const row of session.stream(`SELECT [${texts.join(', ')}]::VARCHAR[] AS key FROM ${table}`)) {
    const parts = (row.key as { items?: unknown[] } | null)?.items ?? [];
    keySum = addKeys(keySum, keyHash(parts.length === 1 ? String(parts[0]) : JSON.stringify(parts)));
  }
  return {
    rows: Number(counts?.rows),
    values: new Map(list.map(({ name }, index) => [name, Number(counts?.[`c${index}`])])),
    keySum,
    hashes,
    trackedHashes: isPartly ? await hashesOf(session, rows, list) : hashes,
    keptHashes: isComparable ? String(kept?.hashes ?? '0') : undefined,
    together,
  };
}

import type { DuckDBVector } from '@duckdb/node-api';
import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js';

/*
 * The only uses of DuckDB's package beyond its interface. `test/unit/sdk/private-parts.test.ts` fails if a version lacks the names.
 */

/**
 * DuckDB's client drops a U+FEFF at the start of a text: another key, name or value than the stored one. With this decoder it keeps it.
 */
export function keepMarks(): void {
  if (!(accessors.textDecoder instanceof TextDecoder))
    throw new TypeError('this version of DuckDB decodes texts in another way');
  if (!accessors.textDecoder.ignoreBOM)
    Object.assign(accessors, { textDecoder: new TextDecoder('utf-8', { ignoreBOM: true }) });
}

/** The memory of a vector of UBIGINT. Its own access makes a big integer of each value, which costs more than all else. */
export function wordsOf(vector: DuckDBVector): Uint32Array {
  const { items } = vector as unknown as { readonly items?: unknown };
  if (!(items instanceof BigUint64Array)) throw new TypeError('this version of DuckDB keeps numbers in another way');
  return new Uint32Array(items.buffer, items.byteOffset, items.length * 2);
}

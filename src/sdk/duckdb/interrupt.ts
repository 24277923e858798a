import type { DuckDBConnection } from '@duckdb/node-api';
import { callEvery } from '../../core/clock.js';

const againMs = 50;

/**
 * Interrupts the statements of a connection until the returned function is called: DuckDB forgets an interruption that precedes the
 * start of its statement.
 */
export function keepInterrupting(connection: Pick<DuckDBConnection, 'interrupt'>): () => void {
  connection.interrupt();
  const timer = callEvery(againMs, () => connection.interrupt());
  return () => clearInterval(timer);
}

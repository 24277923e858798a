import { duckdbTypes, tableConnector, widensDecimal, widensInteger } from '../../src/sdk/index.js';
import { duckdbOptions } from './options.js';

/** Loads another DuckDB file. */
export default tableConnector({
  name: 'duckdb',
  summary: 'Loads tables of another DuckDB file.',
  erasure: 'free blocks of the file keep it until a CHECKPOINT writes over them; backups are yours',
  options: duckdbOptions,
  capabilities: { format: 'parquet', identifiers: { maxBytes: 1000 } },
  place: ({ path, schema }) => `${path} ${schema}`,
  files: ({ path }) => [path],
  // Parquet has no integers of 128 bits, but decimals of 38 digits.
  ...duckdbTypes('HUGEINT', (from, to) => widensInteger(from, to) || widensDecimal(from, to)),
  check: async (context, tables) => (await import('./check.js')).checkDuckdb(context, tables),
  open: async (context) => (await import('./load.js')).openDuckdb(context),
});

import { path, text, whole } from '../../src/sdk/index.js';

export const duckdbOptions = {
  path: path({
    description: 'The DuckDB file. cdsync makes it if it is missing. No other process may have it open during a load.',
    example: './warehouse.duckdb',
  }),
  schema: text({ description: 'Schema of the tables. cdsync makes it if it is missing.', example: 'cdp' }).prefault(
    'main',
  ),
  memory_mb: whole(64, 1_048_576, {
    description: 'Memory that DuckDB may use for this file.',
    unit: 'MB',
    example: 512,
  }).prefault(256),
};

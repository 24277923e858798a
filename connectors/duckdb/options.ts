import { path, text, whole } from '../../src/sdk/index.js';

export const duckdbOptions = {
  path: path({
    description: 'The DuckDB file; made where it is not there. Nobody else may have it open during a load.',
    example: './warehouse.duckdb',
  }),
  schema: text({ description: 'Schema of the tables; made where it is not there.', example: 'cdp' }).prefault('main'),
  memory_mb: whole(64, 1_048_576, {
    description: 'Memory that DuckDB may take for this file.',
    unit: 'MB',
    example: 512,
  }).prefault(256),
};

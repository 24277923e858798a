import { memoryOption, path, schemaOption } from '../../src/sdk/index.js';

export const duckdbOptions = {
  path: path({
    description: 'The DuckDB file. cdsync makes it if it is missing. No other process may have it open during a load.',
    example: './warehouse.duckdb',
  }),
  schema: schemaOption('main'),
  memory_mb: memoryOption('for this file', { example: 512 }),
};

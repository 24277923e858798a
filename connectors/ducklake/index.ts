import { duckdbTypes, tableConnector } from '../../src/sdk/index.js';
import { catalogOf, catalogPlace } from './catalog.js';
import { checkDucklake, ducklakeOptions } from './options.js';

/** Loads tables of a lake of DuckLake. */
export default tableConnector({
  name: 'ducklake',
  summary:
    'Loads tables of a DuckLake: Parquet in a folder or an S3 store, with a catalog in PostgreSQL, DuckDB or SQLite.',
  erasure:
    'older snapshots of the lake keep it until they expire (ducklake_expire_snapshots, ducklake_cleanup_old_files)',
  options: ducklakeOptions,
  optionRules: { check: checkDucklake },
  capabilities: { format: 'parquet', identifiers: { maxBytes: 200 } },
  place: (options) => `${catalogPlace(options)} ${options.schema}`,
  files: (options) => (catalogOf(options).type === 'postgres' ? [] : [catalogPlace(options)]),
  // DuckLake writes integers of 128 bits as doubles.
  ...duckdbTypes('DECIMAL(38,0)'),
  check: async (context, tables) => (await import('./check.js')).checkLake(context, tables),
  open: async (context) => (await import('./load.js')).openDucklake(context),
});

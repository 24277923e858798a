import { holdsAsJson, tableConnector, widensInteger } from '../../src/sdk/index.js';
import { clickhouseOptions } from './options.js';
import { deletedColumn, mapColumn, versionColumn } from './types.js';

/** Loads ClickHouse with Parquet, over HTTP. */
export default tableConnector({
  name: 'clickhouse',
  summary: 'Loads tables of ClickHouse.',
  erasure: 'inactive parts keep it for some minutes; backups are yours',
  options: clickhouseOptions,
  capabilities: {
    transactions: false,
    format: 'parquet',
    identifiers: {
      ignoresCase: false,
      // Columns that cdsync or ClickHouse itself adds to tables.
      reserved: [versionColumn, deletedColumn, '_part', '_partition_id', '_part_offset', '_row_exists', '_table'],
    },
  },
  place: ({ url, database }) => `${new URL(url).host} ${database}`,
  mapColumn,
  holds: holdsAsJson,
  widens: widensInteger,
  check: async (context, tables) => (await import('./check.js')).checkClickhouse(context, tables),
  open: async (context) => (await import('./load.js')).openClickhouse(context),
});

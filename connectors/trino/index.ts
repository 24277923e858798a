import { holdsAsJson, tableConnector, widensDecimal } from '../../src/sdk/index.js';
import { checkOptions, trinoOptions } from './options.js';
import { mapColumn } from './types.js';

/** Loads tables of any catalog that Trino can write, by statements over HTTP. */
export default tableConnector({
  name: 'trino',
  summary: 'Loads tables of any catalog that Trino can MERGE into: Iceberg, Delta Lake, PostgreSQL and others.',
  erasure: 'older snapshots keep it where the catalog has them, until they expire; backups are yours',
  options: trinoOptions,
  optionRules: { check: checkOptions },
  capabilities: {
    // Each statement commits alone: first an intent, the record last.
    transactions: false,
    format: 'csv',
    // The limit of an index of PostgreSQL: its catalog makes tables with a primary key.
    keyBytes: 2600,
    identifiers: {
      // What Hive, Iceberg, Delta Lake and databases all take.
      maxBytes: 63,
      inSmallLetters: true,
      allowed: /[\p{L}\p{N}\p{M}_]/u,
      // Columns that cdsync, Iceberg or PostgreSQL itself has in tables.
      reserved: [
        ...['_cdsync_load', '_file', '_pos', '_deleted', '_spec_id', '_partition', '_row_id'],
        ...['_last_updated_sequence_number', 'tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'],
      ],
    },
  },
  place: ({ url, catalog, schema }) => `${new URL(url).host} ${catalog.toLowerCase()} ${schema.toLowerCase()}`,
  mapColumn: (type) => mapColumn(type),
  holds: holdsAsJson,
  widens: widensDecimal,
  check: async (context, tables) => (await import('./check.js')).checkTrino(context, tables),
  open: async (context) => (await import('./load.js')).openTrinoTables(context),
});

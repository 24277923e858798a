import { tableConnector } from '../../src/sdk/index.js';
import { checkIceberg, icebergOptions } from './options.js';
import { mapColumn, widens } from './types.js';

/** Names that Iceberg, or an engine that reads it, gives to its own columns. */
const reserved = [
  ...['_file', '_pos', '_deleted', '_spec_id', '_partition', '_row_id', '_last_updated_sequence_number'],
  ...['_change_type', '_change_ordinal', '_commit_snapshot_id', 'file_row_number', 'filename', 'rowid'],
];

/** Loads tables of an Iceberg catalog. */
export default tableConnector({
  name: 'iceberg',
  summary: 'Loads Iceberg tables through a REST catalog, in an object store or a folder.',
  erasure:
    'older snapshots and data files of the table keep it until rewrite_data_files, expire_snapshots and remove_orphan_files were run',
  options: icebergOptions,
  optionRules: { check: checkIceberg },
  capabilities: {
    format: 'parquet',
    identifiers: {
      maxBytes: 255,
      allowed: /[\p{L}\p{M}\p{N}_ -]/u,
      begins: /^[\p{L}\p{N}_]/u,
      ends: /[\p{L}\p{M}\p{N}_-]$/u,
      reserved,
    },
  },
  place: ({ catalog, warehouse = '', namespace }) => `${catalog.replace(/(?<!\/)\/+$/, '')} ${warehouse} ${namespace}`,
  mapColumn,
  widens,
  check: async (context, tables) => (await import('./check.js')).checkIceberg(context, tables),
  open: async (context) => (await import('./load.js')).openIceberg(context),
});

import { holdsAsJson, tableConnector, widensDecimal, widensInteger } from '../../src/sdk/index.js';
import { postgresOptions } from './options.js';
import { mapColumn } from './types.js';

/** Loads PostgreSQL by COPY. */
export default tableConnector({
  name: 'postgres',
  summary: 'Loads tables of PostgreSQL.',
  erasure: 'dead rows keep it until VACUUM; backups and replicas are yours',
  options: postgresOptions,
  capabilities: {
    format: 'csv',
    sessions: 4,
    // The limit of an index of PostgreSQL.
    keyBytes: 2600,
    // One column less than a table may have: a dropped column counts too.
    maxColumns: 1500,
    identifiers: {
      maxBytes: 63,
      ignoresCase: false,
      reserved: ['ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid'],
    },
  },
  place: ({ url, schema }) => {
    const { hostname, port, pathname } = new URL(url.reveal());
    return `${hostname}:${port === '' ? '5432' : port}${pathname} ${schema}`;
  },
  mapColumn,
  holds: holdsAsJson,
  widens: (declared, current) => widensInteger(declared, current) || widensDecimal(declared, current),
  check: async (context, tables) => (await import('./check.js')).checkPostgres(context, tables),
  open: async (context) => (await import('./load.js')).openPostgres(context),
});

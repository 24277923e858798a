import { tableConnector } from '../../src/sdk/index.js';
import { postgresOptions } from './options.js';
import { mapColumn, widens } from './types.js';

/** Loads PostgreSQL by COPY. */
export default tableConnector({
  name: 'postgres',
  summary: 'Loads tables of PostgreSQL.',
  options: postgresOptions,
  capabilities: {
    format: 'csv',
    // The limit of an index of PostgreSQL.
    keyBytes: 2600,
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
  widens,
  check: async (context, tables) => (await import('./check.js')).checkPostgres(context, tables),
  open: async (context) => (await import('./load.js')).openPostgres(context),
});

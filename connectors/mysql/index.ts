import { tableConnector } from '../../src/sdk/index.js';
import { mysqlOptions } from './options.js';
import { mapColumn, widens } from './types.js';

/** Loads MySQL and MariaDB by LOAD DATA LOCAL. */
export default tableConnector({
  name: 'mysql',
  summary: 'Loads tables of MySQL and MariaDB.',
  options: mysqlOptions,
  capabilities: {
    format: 'csv',
    // With no escapes, the word NULL without quotes is NULL.
    csv: { null: 'NULL' },
    // A single text that is the key; of several each takes a part of it, and the server refuses what is longer.
    keyBytes: 768,
    identifiers: {
      maxBytes: 64,
      ignoresCase: true,
      allowed: /[^\u{10000}-\u{10ffff}]/u,
    },
  },
  place: ({ url }) => {
    const { hostname, port, pathname } = new URL(url.reveal());
    return `${hostname}:${port === '' ? '3306' : port}${pathname}`;
  },
  mapColumn,
  widens,
  open: async (context) => (await import('./load.js')).openMysql(context),
});

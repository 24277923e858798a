import { holdsAsJson, tableConnector } from '../../src/sdk/index.js';
import { foldedName } from './folded-name.js';
import { mysqlOptions } from './options.js';
import { isTypeOf, mapColumn, widens } from './types.js';

/** Loads MySQL and MariaDB by LOAD DATA LOCAL. */
export default tableConnector({
  name: 'mysql',
  summary: 'Loads tables of MySQL and MariaDB.',
  erasure: 'binary logs and backups keep it',
  options: mysqlOptions,
  capabilities: {
    format: 'csv',
    sessions: 4,
    // Without escapes, MySQL reads the unquoted word NULL as NULL.
    csvNull: 'NULL',
    // For a key of one text. Several texts share these bytes; the server refuses longer ones.
    keyBytes: 768,
    // InnoDB's limit.
    maxColumns: 1000,
    identifiers: {
      maxBytes: 64,
      ignoresCase: true,
      fold: foldedName,
      allowed: /[^\u{10000}-\u{10ffff}]/u,
      // The server refuses names that end in white space of ASCII.
      ends: /[^ \t\n\v\f\r]$/,
    },
  },
  place: ({ url }) => {
    const { hostname, port, pathname } = new URL(url.reveal());
    return `${hostname}:${port === '' ? '3306' : port}${pathname}`;
  },
  mapColumn,
  holds: holdsAsJson,
  isTypeOf,
  widens,
  check: async (context, tables) => (await import('./check.js')).checkMysql(context, tables),
  open: async (context) => (await import('./load.js')).openMysql(context),
});

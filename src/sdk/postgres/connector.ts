import { holdsAsJson, widensDecimal, widensInteger } from '../column-type.js';
import { type TableConnector, tableConnector } from '../destination.js';
import { mapsColumns } from '../load.js';
import type { PostgresFamily } from './family.js';
import { postgresOptions } from './options.js';
import { postgresTypes } from './types.js';

/** A connector of a database of PostgreSQL's family: it loads by COPY, over a connection for each stream. */
export function postgresConnector(family: PostgresFamily): TableConnector<typeof postgresOptions> {
  const { name, product, erasure } = family;
  const mapColumn = mapsColumns({ ...postgresTypes, ...family.types });
  return tableConnector({
    name,
    summary: `Loads tables of ${product}.`,
    erasure,
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
      ...family.capabilities,
    },
    place: ({ url, schema }) => {
      const { hostname, port, pathname } = new URL(url.reveal());
      return `${hostname}:${port === '' ? (family.port ?? 5432) : port}${pathname} ${schema}`;
    },
    mapColumn,
    holds: holdsAsJson,
    widens: (declared, current) => widensInteger(declared, current) || widensDecimal(declared, current),
    check: async (context, tables) => (await import('./check.js')).checkPostgres(context, tables, family, mapColumn),
    open: async (context) => (await import('./load.js')).openPostgres(context, family),
  });
}

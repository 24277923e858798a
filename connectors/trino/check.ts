import { type DestinationCheck, type DestinationContext, describeTables, sqlText } from '../../src/sdk/index.js';
import { type Catalog, findCatalog } from './catalogs.js';
import { information, openTrinoTables } from './load.js';
import type { trinoOptions } from './options.js';
import { trinoSession } from './session.js';
import { mapColumn } from './types.js';

/** A sentence about the limits of a kind of catalog. */
function untriedOf({ name, kind, traits }: Catalog): string {
  if (traits.merges === false) return `catalog ${name} (${kind}) has no MERGE: only mode append works there`;
  if (traits.merges === true) return 'whether the user may write there shows the first load';
  return `whether catalog ${name} (${kind ?? 'of unknown kind'}) can MERGE, which all modes but append need, shows the first load`;
}

/** Logs in, looks for catalog and schema, and describes the tables that are there. */
export async function checkTrino(
  context: DestinationContext<typeof trinoOptions>,
  tables: readonly string[],
): Promise<DestinationCheck> {
  const { trino } = await trinoSession(context);
  try {
    const [about] = await trino.rows('SELECT node_version AS version FROM system.runtime.nodes WHERE coordinator');
    const catalog = await findCatalog(trino, context.options.catalog);
    const schema = context.options.schema.toLowerCase();
    const rows = await trino.rows(
      `SELECT 1 AS found FROM ${information(catalog.name, 'schemata')}
       WHERE schema_name = ${sqlText(schema)}`,
    );
    if (rows.length > 0)
      await describeTables(openTrinoTables(context), tables, { mapColumn: (type) => mapColumn(type) });
    const missing = rows.length > 0 ? '' : ' (to be created)';
    const reached = `Trino ${about?.version}, catalog ${catalog.name} (${catalog.kind ?? 'unknown'}), schema ${schema}${missing}`;
    return { reached, lacks: [], untried: untriedOf(catalog) };
  } finally {
    await trino.close();
  }
}

import type { DestinationCheck, DestinationContext, MissingRight } from '../../src/sdk/index.js';
import { openCatalog } from './load.js';
import type { IcebergShape } from './options.js';
import { IcebergSession, tableOf } from './session.js';
import { TableDraft } from './table-draft.js';

/** Logs in to the catalog, looks for the namespace, starts DuckDB, and reads a row of each table that is there. */
export async function checkIceberg(
  context: DestinationContext<IcebergShape>,
  tables: readonly string[],
): Promise<DestinationCheck> {
  const { namespace, createNamespace } = context.options;
  const catalog = await openCatalog(context);
  try {
    const place = `Iceberg catalog at ${catalog.host}, namespace ${namespace}`;
    const session = await IcebergSession.open(context, catalog);
    try {
      if (!(await catalog.hasNamespace())) {
        if (createNamespace) return { reached: `${place}, which the first load creates`, lacks: [], untried };
        const hint = 'create it there, or let cdsync do it: create_namespace: true';
        const lack: MissingRight = { message: `there is no namespace ${namespace}`, hint };
        return { reached: `Iceberg catalog at ${catalog.host}`, lacks: [lack] };
      }
      for (const table of tables) {
        const loaded = await catalog.load(table);
        if (loaded === undefined) continue;
        await session.show(table, new TableDraft(loaded));
        await session.run(`SELECT count(*) FROM (FROM ${tableOf(table)} LIMIT 1)`);
      }
      return { reached: place, lacks: [], untried };
    } finally {
      await session.close();
    }
  } finally {
    await catalog.close();
  }
}

const untried = 'whether tables and files may be written shows the first load';

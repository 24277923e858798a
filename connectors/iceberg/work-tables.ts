import { createHash } from 'node:crypto';
import type { StateKey } from '../../src/sdk/index.js';
import type { RestCatalog } from './catalog.js';

const rows = '_cdsync_rows_';
const merged = '_cdsync_merge_';

/**
 * The beginnings of the names of a load's work tables. Each load adds its own digits: a statement that outlives a killed delivery
 * never meets a table of the next one.
 * @param place the destination and the table
 */
export function workTables(place: readonly string[]): { readonly rows: string; readonly merged: string } {
  const digits = createHash('sha256').update(JSON.stringify(place)).digest('hex').slice(0, 16);
  return { rows: `${rows}${digits}_`, merged: `${merged}${digits}_` };
}

/** Whether a table is a load's own: readers and other loads leave it alone. */
export function isWorkTable(name: string): boolean {
  return name.startsWith(rows) || name.startsWith(merged);
}

/** Drops the work tables of loads of a table. Files of the merged one belong to the table itself. */
export async function dropWorkTables(
  catalog: RestCatalog,
  { destination, table }: Pick<StateKey, 'destination' | 'table'>,
): Promise<void> {
  const own = workTables([destination, table]);
  for (const name of await catalog.tables())
    if (name.startsWith(own.rows) || name.startsWith(own.merged))
      await catalog.drop(name, { withFiles: name.startsWith(rows) });
}

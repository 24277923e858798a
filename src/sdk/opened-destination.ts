import type { TableDestination, TableTypes } from './destination.js';

/** Continues with something that was opened, and closes it if that fails. */
export async function orClose<T>(opened: { close(): unknown }, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** For checks: opens a destination, and describes tables there. @param types of a server whose functions loads rest on */
export async function describeTables(
  opening: Promise<TableDestination>,
  tables: readonly string[],
  types?: Pick<TableTypes, 'mapColumn'>,
): Promise<void> {
  const destination = await opening;
  try {
    for (const table of tables) await destination.describe(table);
    if (types !== undefined) await destination.tryFunctions?.({ ...types, ...destination.types });
  } finally {
    await destination.close();
  }
}

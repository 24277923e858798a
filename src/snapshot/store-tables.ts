import { quoteIdentifier } from '../core/sql.js';

/** The name under which cdsync attaches a job's store. */
export const storeName = 'store';
/** The schema of tables that readers do not need. Its name sorts after `main`, so that clients list it last. */
export const internalSchema = 'private';
/** The comment on each table of that schema. */
export const internalComment = 'internal';

/** A table of the store, quoted and qualified. */
export function storeTable(name: string, schema = 'main'): string {
  return `${storeName}.${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
}

/** The table of a stream's changes, without its first load. */
export function changesTable(stream: string): string {
  return storeTable(`${stream}__changes`);
}

/** The earlier table: the row of each key before its first change in the table of changes. */
export function beforeTable(stream: string): string {
  return storeTable(`before_${stream}`, internalSchema);
}

/** The store's id and version: one row. */
export const aboutTable = storeTable('store', internalSchema);

/** The state of each stream, as JSON. */
export const streamsTable = storeTable('streams', internalSchema);

/** When each snapshot of each stream was taken and committed. */
export const commitTimesTable = storeTable('moments', internalSchema);

/** The table of a stream's (key, hash) rows. */
export function keysTable(stream: string): string {
  return storeTable(`keys_${stream}`, internalSchema);
}

import { createHash } from 'node:crypto';
import type { DestinationConfig } from '../../config/config.js';
import type { Feed } from '../../snapshot/feed.js';

/** A hash of these values, as 32 hex digits. */
export function hashed(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

/** Hash of the definition of a table. It changes when rows already in the table would need other values or another place. */
export function tableDefinition(
  feed: Pick<Feed, 'definition' | 'key'>,
  { mode, columns, table, deletes }: Pick<DestinationConfig, 'mode' | 'columns' | 'table' | 'deletes'>,
): string {
  return hashed([feed.definition, feed.key, [...columns].sort(), table, mode === 'append' ? mode : 'keyed', deletes]);
}

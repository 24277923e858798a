import { createHash } from 'node:crypto';
import type { DestinationConfig } from '../config/config.js';
import type { Feed } from '../store/feed.js';

/** 32 hex digits that stand for these values. */
export function hashed(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

/** Hash of what a table is to hold: it moves where rows that stand there would have to look different, or stand elsewhere. */
export function tableDefinition(
  feed: Pick<Feed, 'definition' | 'key'>,
  { mode, columns, table, deletes }: Pick<DestinationConfig, 'mode' | 'columns' | 'table' | 'deletes'>,
): string {
  return hashed([feed.definition, feed.key, [...columns].sort(), table, mode === 'append' ? mode : 'keyed', deletes]);
}

/** Hash of what is sent as records. */
export function recordDefinition(
  feed: Pick<Feed, 'definition' | 'key'>,
  { mode, columns }: Pick<DestinationConfig, 'mode' | 'columns'>,
): string {
  return hashed([feed.definition, feed.key, [...columns].sort(), mode]);
}

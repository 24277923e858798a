import type { ColumnType } from '../column-type.js';
import type { TableTypes } from '../destination.js';
import { rowNumber } from './row-sum.js';
import type { SqlStore } from './state-rows.js';

const kinds: readonly ColumnType[] = [
  ...(['boolean', 'int64', 'int128', 'double', 'text', 'timestamp', 'date', 'json'] as const).map((kind) => ({ kind })),
  { kind: 'decimal', precision: 18, scale: 2 },
];

/**
 * Calls each function of the server that a load rests on, once and on no row: those that give the text of a value of each kind, and the
 * hash of a row. Writes nothing.
 * @throws {CdsyncError} if the server lacks one, or this user may not call it
 */
export async function tryFunctions({ dialect, session }: SqlStore, { mapColumn }: Pick<TableTypes, 'mapColumn'>) {
  const { hashing, noValue = (type: string) => `CAST(NULL AS ${type})`, functions = [] } = dialect;
  const texts = kinds.flatMap((kind) => {
    const { type } = mapColumn(kind, { name: 'cdsync', type: kind, duckdbType: '' });
    return dialect.canonical(noValue(type), kind) ?? [];
  });
  const called = [hashing.sum(rowNumber(hashing, texts)), dialect.moment('2000-01-01T00:00:00.000Z'), ...functions];
  const selected = called.map((sql, index) => `${sql} AS s${index}`);
  await session.rows(`SELECT ${selected.join(', ')} FROM (SELECT 1 AS n) AS cdsync_one`);
}

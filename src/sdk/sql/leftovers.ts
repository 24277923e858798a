import { CdsyncError } from '../errors.js';
import type { Load, StateRow } from '../load.js';
import type { SqlSession } from './dialect.js';
import { removeRecords, type SqlStore, writeRecord } from './state-rows.js';

/** Runs statements that drop tables of staged rows. If a stop has ended the session, these are gone already. @returns those that failed */
export async function dropLeftovers(
  session: SqlSession,
  statements: readonly string[],
  { aborted }: AbortSignal,
): Promise<string[]> {
  if (aborted && session.cleanUp === undefined) return [];
  const failed: string[] = [];
  for (const sql of statements) await (session.cleanUp?.(sql) ?? session.run(sql)).catch(() => failed.push(sql));
  return failed;
}

/**
 * Drops a table that is made again. If the server refuses, because a view or a foreign key needs it, the table is as it was: so is its
 * record then, or every later delivery would try to drop it too.
 * @param announced the record's row with the intent, if it was written
 */
export async function dropTable(
  store: SqlStore,
  table: string,
  { state, before, announced }: Pick<Load, 'state' | 'before'> & { readonly announced: StateRow | undefined },
): Promise<void> {
  try {
    await store.session.run(`DROP TABLE IF EXISTS ${store.dialect.table(table)}`);
  } catch (error) {
    const isRefused = error instanceof CdsyncError && error.kind === 'fatal';
    if (isRefused && announced !== undefined)
      await (before === undefined
        ? removeRecords(store, state)
        : writeRecord(store, state, announced, before.record)
      ).catch(() => undefined);
    throw error;
  }
}

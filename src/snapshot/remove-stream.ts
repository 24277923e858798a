import { sqlText } from '../core/sql.js';
import { nextCommitTime } from './history.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, changesTable, commitTimesTable, keysTable, storeTable, streamsTable } from './store-tables.js';

/**
 * Takes a stream out of the store, in its own commit. Its rows stay in the blocks of the file until that is written again.
 * @returns how many rows it had
 */
export async function removeStream(
  store: SnapshotStore,
  stream: string,
  { runId, at, sequence }: { readonly runId: string; readonly at: string; readonly sequence: number },
): Promise<number> {
  const { session } = store;
  return session.transaction(async () => {
    const rows = await session.number(`SELECT count(*) FROM ${storeTable(stream)}`);
    const time = `${sqlText(await nextCommitTime(store, at))}::TIMESTAMPTZ`;
    for (const view of ['history', 'last_changes'])
      await session.run(`DROP VIEW IF EXISTS ${storeTable(`${stream}__${view}`)}`);
    await session.run(`DROP MACRO TABLE IF EXISTS ${storeTable(`${stream}_as_of`)}`);
    for (const table of [storeTable(stream), changesTable(stream), keysTable(stream), beforeTable(stream)])
      await session.run(`DROP TABLE IF EXISTS ${table}`);
    const about = ['streams', 'columns', 'rejects'].map((name) => storeTable(name, 'cdsync'));
    for (const table of [...about, streamsTable, commitTimesTable])
      await session.run(`DELETE FROM ${table} WHERE stream = ${sqlText(stream)}`);
    await session.run(
      `INSERT INTO ${storeTable('runs', 'cdsync')} VALUES (${sqlText(runId)}, ${sequence}, 'ok', ${time}, ${time})`,
    );
    return rows;
  });
}

import { createHash, randomBytes } from 'node:crypto';
import { sleep, sqlText, unavailable } from '../../src/sdk/index.js';
import type { TrinoSession } from './client.js';
import { trinoFailureName } from './client-error.js';

const maxPauseMs = 1000;
/** A killed statement ends within seconds. */
const patienceMs = 120_000;

/** Names of the statements of one destination in `system.runtime.queries`: all begin the same, each session ends its own way. */
export function sourceOf(place: readonly string[]): { readonly all: string; readonly own: string } {
  const digits = createHash('sha256').update(JSON.stringify(place)).digest('hex').slice(0, 16);
  const all = `cdsync-${digits}-`;
  return { all, own: all + randomBytes(8).toString('hex') };
}

/**
 * Ends statements that an earlier delivery has left running, and waits until they have ended. Trino works for minutes on a
 * statement whose client is gone, and may commit it after a later one.
 */
export async function endOthers(
  session: TrinoSession,
  { all, own }: { readonly all: string; readonly own: string },
  signal: AbortSignal,
): Promise<void> {
  const running = `SELECT query_id FROM system.runtime.queries WHERE starts_with(source, ${sqlText(all)})
    AND source <> ${sqlText(own)} AND state NOT IN ('FINISHED', 'FAILED')`;
  const until = Date.now() + patienceMs;
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
    const rows = await session.rows(running);
    if (rows.length === 0) return;
    if (Date.now() > until) throw unavailable('a statement of an earlier delivery still runs in Trino');
    for (const { query_id: id } of rows) await kill(session, String(id));
    await sleep(pauseMs, signal).catch(() => undefined);
  }
}

async function kill(session: TrinoSession, id: string): Promise<void> {
  try {
    const message = 'the delivery that began this statement has ended';
    await session.run(`CALL system.runtime.kill_query(query_id => ${sqlText(id)}, message => ${sqlText(message)})`);
  } catch (error) {
    // It has probably ended; else the next look shows it. A user without the right waits for Trino's own time limit.
    if (trinoFailureName(error) === undefined) throw error;
  }
}

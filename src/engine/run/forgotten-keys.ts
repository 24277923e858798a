import { emptyShape } from '../../columns/column-shape.js';
import { maskedValueSql } from '../../columns/masked-value.js';
import { sqlTexts } from '../../core/sql.js';
import { keysTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { DecisionLog } from '../../storage/decisions.js';
import type { RunContext } from '../run-context.js';

/** SQL for the texts of a column `key` of a table: the key itself and, of several columns, each of their texts. */
export function partsOfKeys(rows: string, key: readonly string[]): string {
  const whole = `SELECT key, key AS part FROM ${rows}`;
  if (key.length === 1) return whole;
  const parts = `SELECT key, unnest(from_json(key, '["VARCHAR"]')) AS part FROM ${rows} WHERE json_valid(key)`;
  return `${whole} UNION ALL ${parts}`;
}

/** The same of one key. */
export function partsOfKey(text: string, key: readonly string[]): string[] {
  if (key.length === 1) return [text];
  try {
    return [text, ...(JSON.parse(text) as unknown[]).map(String)];
  } catch {
    return [text];
  }
}

/** The people that a stream leaves out. */
export interface ForgottenKeys {
  /** SQL for those keys in a table of rows. */
  readonly among: (rows: string) => string;
  /** Whether a key is one of them. */
  has(key: string | null): boolean;
}

/**
 * Finds the rows of people who were forgotten, but returned by the service: their keys are compared as hashes. Rows that the last
 * snapshot has, an erasure that was cut short has left: they stay until the erasure is done.
 * @returns undefined if no person was forgotten
 * @throws {CdsyncError} `state_unreadable` if the log of decisions is lost or was altered
 */
export async function forgottenKeys(
  { database, layout }: Pick<RunContext, 'database' | 'layout'>,
  { stream, key, previous }: { stream: string; key: readonly string[]; previous: StreamState | undefined },
): Promise<ForgottenKeys | undefined> {
  const log = await DecisionLog.read(layout, { expected: previous?.forgotten === true });
  const hashes = log.forgotten(stream);
  if (hashes.length === 0 || log.hashKey === undefined) return undefined;
  const salt = `forgotten_${layout.job}`;
  await database.defineSalts([{ fingerprint: salt, bytes: log.hashKey }]);
  const text = { type: 'VARCHAR', shape: emptyShape() };
  const hash = maskedValueSql('part', text, { hash: { salt } });
  const isNew = previous === undefined ? '' : ` AND key NOT IN (SELECT key FROM ${keysTable(stream)})`;
  const all = new Set(hashes);
  return {
    among: (rows) =>
      `SELECT key FROM (${partsOfKeys(rows, key)}) WHERE part IN (SELECT part FROM
         (SELECT DISTINCT part FROM (${partsOfKeys(rows, key)})) WHERE ${hash} IN (SELECT unnest(${sqlTexts(hashes)})))${isNew}`,
    has: (text) => text !== null && partsOfKey(text, key).some((part) => all.has(log.hash(part))),
  };
}

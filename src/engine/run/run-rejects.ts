import { emptyShape } from '../../columns/column-shape.js';
import type { StoredColumn } from '../../columns/columns.js';
import { maskedValueSql } from '../../columns/masked-value.js';
import { sqlTexts } from '../../core/sql.js';
import type { CommittedReject } from '../../snapshot/commit.js';
import type { DiffTask } from '../../snapshot/diff.js';
import type { Session } from '../../storage/duckdb.js';
import { rejectsIn } from '../../storage/part.js';

/** A reject, as the files of a run contain it. */
interface FoundReject extends CommittedReject {
  /** Its key is that of a stored row, already hashed if the column is; not that of a record as it arrived. */
  readonly isKept?: boolean;
}

/** Rejects with their keys as stored: a hashed key is hashed in the rejects too. */
export async function shownKeys(
  session: Session,
  rejects: readonly FoundReject[],
  { key, columns }: Pick<DiffTask, 'key' | 'columns'>,
): Promise<CommittedReject[]> {
  const hashed = columns.filter(({ name, rule }) => key.includes(name) && rule?.hash !== undefined);
  if (hashed.length === 0 || rejects.length === 0) return [...rejects];
  const [{ rule }] = hashed as [StoredColumn];
  // A reject shows no key of several columns.
  if (key.length > 1 || rule === undefined) return rejects.map((reject) => ({ ...reject, key: null }));
  const keys = [...new Set(rejects.flatMap((reject) => reject.key ?? []))];
  const text = { type: 'VARCHAR', shape: emptyShape() };
  const rows = await session.rows(
    `SELECT key, ${maskedValueSql('key', text, rule)} AS shown FROM (SELECT unnest(${sqlTexts(keys)}::VARCHAR[]) AS key)`,
  );
  const shown = new Map(rows.map((row) => [String(row.key), String(row.shown)]));
  return rejects.map(({ isKept, ...reject }) => {
    const key = reject.key === null || isKept ? reject.key : (shown.get(reject.key) ?? null);
    return { ...reject, key };
  });
}

/** @throws {CdsyncError} `state_unreadable` if a file was altered, or has fewer lines than were written */
export async function readRunRejects(files: readonly string[]): Promise<FoundReject[]> {
  const rejects: FoundReject[] = [];
  for (const file of files) {
    for (const reject of await rejectsIn(file)) {
      const { key, column, reason, isKept = false } = reject as FoundReject;
      rejects.push({ key, column, reason, isKept });
    }
  }
  return rejects;
}

import { CdsyncError } from '../../core/errors.js';
import type { ReadResult } from '../../extract/read-result.js';
import type { Unified } from '../../snapshot/unify-parts.js';

/** Further copies of keys, and rows of attempts that no longer count. */
export function countDuplicates(
  { dropped }: Pick<ReadResult, 'dropped'>,
  { duplicates }: Pick<Unified, 'duplicates'>,
): number {
  return duplicates + dropped.reduce((sum, { from, to }) => sum + to - from, 0);
}

/**
 * Checks that every record is counted once: as a row, a further copy of a key, a reject, a forgotten person, or an unchanged row.
 * @throws {CdsyncError} `unbalanced` if records were lost or added on the way
 */
export function checkRowCounts(
  stream: string,
  read: Pick<ReadResult, 'counters' | 'dropped' | 'unchangedRows'>,
  unified: Pick<Unified, 'rows' | 'duplicates' | 'forgotten'>,
): void {
  const { counters, unchangedRows } = read;
  const { rows, forgotten } = unified;
  const copies = countDuplicates(read, unified);
  if (counters.read === rows + copies + forgotten + counters.rejected + unchangedRows.records) return;
  const unchanged = unchangedRows.records === 0 ? '' : ` ${unchangedRows.records} unchanged rows,`;
  throw new CdsyncError(
    `${counters.read} records were read, but these are ${rows} rows,${unchanged} ${copies} duplicates and ${counters.rejected} rejects`,
    { code: 'unbalanced', stream, hint: 'nothing was committed; run again, and report it if it stays' },
  );
}

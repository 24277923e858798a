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
 * Checks that every record read is accounted for: as a row, a further copy of a key, a reject, or a row that stays as the
 * last snapshot has it.
 * @throws {CdsyncError} `unbalanced` if records were lost or appeared on the way
 */
export function checkRowCounts(
  stream: string,
  read: Pick<ReadResult, 'counters' | 'dropped' | 'standing'>,
  unified: Pick<Unified, 'rows' | 'duplicates'>,
): void {
  const { counters, standing } = read;
  const { rows } = unified;
  const copies = countDuplicates(read, unified);
  if (counters.read === rows + copies + counters.rejected + standing.records) return;
  const stood = standing.records === 0 ? '' : ` ${standing.records} that stand,`;
  throw new CdsyncError(
    `${counters.read} records were read, but ${rows} rows,${stood} ${copies} duplicates and ${counters.rejected} rejects came of them`,
    { code: 'unbalanced', stream, hint: 'nothing was committed; run again, and report it if it stays' },
  );
}

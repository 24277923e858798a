import { CdsyncError } from '../../core/errors.js';
import type { Extracted } from '../../extract/extracted.js';
import type { Unified } from '../../snapshot/unify-parts.js';

/**
 * Checks that every record read is accounted for: as a row, a further copy of a key, a reject, or a row that stays as the
 * last snapshot has it.
 * @throws {CdsyncError} `unbalanced` if records were lost or appeared on the way
 */
export function balance(
  stream: string,
  { counters, dropped, standing }: Pick<Extracted, 'counters' | 'dropped' | 'standing'>,
  { rows, duplicates }: Pick<Unified, 'rows' | 'duplicates'>,
): void {
  const { read, rejected } = counters;
  const copies = duplicates + dropped.reduce((sum, { from, to }) => sum + to - from, 0);
  if (read === rows + copies + rejected + standing.records) return;
  const stood = standing.records === 0 ? '' : ` ${standing.records} that stand,`;
  throw new CdsyncError(
    `${read} records were read, but ${rows} rows,${stood} ${copies} duplicates and ${rejected} rejects came of them`,
    { code: 'unbalanced', stream, hint: 'nothing was committed; run again, and report it if it stays' },
  );
}

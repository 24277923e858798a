import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import type { StreamTask } from '../delivery.js';

/**
 * The problem of a delivery whose rows are right, but which could not remove tables or files that a load has left beside the table.
 * @param since when that load was committed: ISO 8601
 */
export function removalOwed(
  { feed }: Pick<StreamTask<never>, 'feed'>,
  { table, since, error }: { readonly table: string; readonly since: string; readonly error: unknown },
): CdsyncError {
  const { message, code } = asCdsyncError(error);
  return new CdsyncError(
    `rows that loads of table "${table}" have left since ${since} could not be removed, and may have values that are gone from the table: ${message} (${code})`,
    {
      code: 'removal_owed',
      stream: feed.stream,
      hint: 'allow cdsync to delete there; each delivery tries again, also one with nothing to do: cdsync push',
      cause: error,
    },
  );
}

import {
  type CdsyncError,
  duckdbRefused,
  loadRefused,
  permissionMissing,
  unavailable,
  wantsMemory,
} from '../../src/sdk/index.js';

/** The error for a failure of DuckDB, without DuckDB's message: that may quote rows. */
export function refusal(cause: unknown): CdsyncError {
  const message = cause instanceof Error ? cause.message : String(cause);
  if (wantsMemory(cause)) return duckdbRefused('DuckDB refused a statement', cause);
  if (/permission denied|read-only/i.test(message)) {
    return permissionMissing('the DuckDB file may not be written', {
      hint: 'check who owns the file and its folder',
      cause,
    });
  }
  if (
    /Conflicting lock|set lock on file|database is locked|being used by|different configuration than existing|write-write conflict|Conflict on/i.test(
      message,
    )
  )
    return unavailable('the DuckDB file is in use by another process', { hint: 'close it there', cause });
  if (/^Constraint Error: (Duplicate key|PRIMARY KEY or UNIQUE|NOT NULL)/.test(message)) {
    // Of the message, only the part before the colon is no value.
    const [, column] =
      /^Constraint Error: (?:Duplicate key "|NOT NULL constraint failed: [^.]*[.])([^:"]+)/.exec(message) ?? [];
    const where = column === undefined ? '' : ` (column "${column}")`;
    const what = message.includes('NOT NULL')
      ? 'a column that must have a value has none'
      : 'a unique index already has the value';
    return loadRefused(`DuckDB refuses a row: ${what}${where}`, {
      hint: 'the table may not ask for more than the source has: drop the index or constraint',
      cause,
      causeQuotesValues: true,
    });
  }
  const [, object] = /Cannot alter entry "([^"]*)"/.exec(message) ?? [];
  if (object !== undefined)
    return loadRefused(`DuckDB cannot change table "${object}" while an index or a view depends on it`, {
      hint: 'drop the index or view, push, and make it again',
      cause,
    });
  return duckdbRefused('DuckDB refused a statement', cause);
}

/** The error for a file that cannot be opened. Nothing was read of it, so DuckDB's words quote no row. */
export function openRefusal(cause: unknown, path: string): CdsyncError {
  const error = refusal(cause);
  if (error.code !== 'destination_refused') return error;
  const [words = ''] = (cause instanceof Error ? cause.message : String(cause)).split('\n');
  return loadRefused(`${path} cannot be opened: ${words}`, {
    hint: 'move the file away if it is not a DuckDB database, or choose another `path`',
    cause,
  });
}

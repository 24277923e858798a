import { CdsyncError, type ErrorKind, storageError } from '../core/errors.js';
import { outOfMemory } from '../core/sql.js';

/** Messages of DuckDB about a refusal of the operating system, and that system's error code for each. */
const systemCodes: readonly (readonly [RegExp, string])[] = [
  // What does not fit in memory may take nine tenths of what is free on the disk.
  [/no space left|could not write all bytes|ENOSPC|disk quota|max_temp_directory_size/i, 'ENOSPC'],
  [/file too large/i, 'EFBIG'],
  [/permission denied|operation not permitted/i, 'EACCES'],
  [/read-only file system/i, 'EROFS'],
  [/too many open files/i, 'EMFILE'],
  [/^IO Error: (could not|cannot|failed to)|input\/output error|fsync failed/i, 'EIO'],
];

/** SQL for messages, without its literals: they may hold personal values. Also removes a literal that an excerpt cuts off. */
export function withoutLiterals(sql: string): string {
  return sql.replace(/'(?:[^'\n]|'')*('|$)/gm, "'…'");
}

/** The error for a failure of DuckDB. DuckDB's own message may quote records, so it is kept only in the cause. */
export function databaseError(cause: unknown): CdsyncError {
  const message = cause instanceof Error ? cause.message : String(cause);
  if (tellsOfDamage(cause)) {
    return new CdsyncError('DuckDB met a file that is torn or damaged', {
      code: 'state_unreadable',
      hint: 'cdsync verify says which; everything published stays as it was. Restore the storage folder from a backup',
      cause,
      causeQuotesValues: true,
    });
  }
  const [, code] = systemCodes.find(([pattern]) => pattern.test(message)) ?? [];
  if (code !== undefined) return storageError(code, 'DuckDB could not do its work', cause);
  if (outOfMemory.test(message)) return memoryExceeded(cause);
  const kind = /^[A-Z][A-Za-z ]{2,40}(?=:)/.exec(message)?.[0] ?? 'error';
  return new CdsyncError(`DuckDB refused a statement (${kind})`, {
    code: 'database_failed',
    hint: 'its message may quote records, and is shown with --verbose --show-values',
    cause,
    causeQuotesValues: true,
  });
}

function memoryExceeded(cause: unknown): CdsyncError {
  return new CdsyncError('DuckDB needs more memory than it may use', {
    code: 'memory_exceeded',
    hint: 'raise `resources.memory_mb`',
    cause,
  });
}

/** Whether DuckDB says that a file is not a database of DuckDB, or is torn. */
export function tellsOfDamage(error: unknown): boolean {
  const said = error instanceof CdsyncError ? error.cause : error;
  const message = said instanceof Error ? said.message : String(said);
  return /not a valid DuckDB|corrupt|checksum|serialization|magic|could not read enough bytes/i.test(message);
}

/** Codes that become `sql_failed` for a query: a file that cannot be read is one that the query names. */
const isOfQuery = new Set(['database_failed', 'state_unreadable', 'storage_failed', 'storage_permission']);

/** What the macros of published files say, through DuckDB, of a time before their history. It names no value of a record. */
export const beforeHistory = '_as_of: nothing is kept of that time';

/** What DuckDB said of a statement, without its client's words about the step that failed. */
export function saidOf(cause: unknown): string {
  return (cause instanceof Error ? cause.message : String(cause)).replace(/^Failed to extract statements: /, '').trim();
}

/**
 * The error that the author of a query sees if DuckDB refuses it. Messages about names and grammar quote only the query, and
 * are shown; messages about values quote records, and are left out.
 */
export function queryError(thrown: unknown, hint: string, kind: ErrorKind = 'fatal'): CdsyncError {
  const cause = thrown instanceof CdsyncError ? thrown.cause : thrown;
  if (thrown instanceof CdsyncError && !isOfQuery.has(thrown.code)) return thrown;
  const said = saidOf(cause);
  if (outOfMemory.test(said)) return memoryExceeded(cause);
  const ofNames = /^(Parser|Binder|Catalog|IO|Permission|Not implemented) Error/.test(said);
  const harmless = ofNames || said.includes(beforeHistory) || said.includes('attached in read-only mode');
  const type = /^[A-Z][A-Za-z ]{2,40}(?=:)/.exec(said)?.[0] ?? 'error';
  const shown = harmless
    ? `: ${withoutLiterals(said)}`
    : ` (${type}; its message may quote records: --verbose --show-values)`;
  return new CdsyncError(`DuckDB refused the query${shown}`, {
    code: 'sql_failed',
    kind,
    hint,
    cause,
    causeQuotesValues: true,
  });
}

import { CdsyncError, type ErrorKind, liftLimit, memoryRefused, reworded, storageError } from '../../core/errors.js';
import { loadRefused } from '../errors.js';

/** Why DuckDB failed, by its words; a refusal of the operating system by that system's error code. The first that fits counts. */
const reasons = {
  corrupt: /not a valid DuckDB|corrupt|checksum|serialization|magic|could not read enough bytes/i,
  // Data that does not fit in memory may take nine tenths of the free disk space.
  ENOSPC: /no space left|could not write all bytes|ENOSPC|disk quota|max_temp_directory_size/i,
  EFBIG: /file too large/i,
  EACCES: /permission denied|operation not permitted/i,
  EROFS: /read-only file system/i,
  EMFILE: /too many open files/i,
  EIO: /^IO Error: (could not|cannot|failed to)|input\/output error|fsync failed/i,
  // DuckDB says it of a statement, or of its COMMIT.
  memory:
    /^((TransactionContext|FATAL) Error: Failed to (commit|create checkpoint because of error): )?(Out of Memory Error|(failed to|could not) (pin|allocate) |std::bad_alloc)|Original error: "?(Out of Memory|Allocation failure|(failed to|could not) (pin|allocate) )/i,
} as const;
type Reason = keyof typeof reasons;
const allReasons = Object.keys(reasons) as Reason[];

/** The reason for a failure, if it is one of those, and DuckDB's name for it: `Binder Error`. */
function classify(message: string, among = allReasons): { reason: Reason | undefined; name: string } {
  const reason = among.find((reason) => reasons[reason].test(message));
  return { reason, name: /^[A-Z][A-Za-z ]{2,40}(?=:)/.exec(message)?.[0] ?? 'error' };
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Messages about a text or a number that could not become another type: they quote it. */
const ofValue =
  /^Conversion Error: (Could not convert string|Could not cast value|invalid \w+ (field|value)|\w+ field value out of range|Type \w+ with value)/i;

/** The literals of a query: strings and numbers. */
function literalsOf(sql: string): string[] {
  const strings = [...sql.matchAll(/'((?:[^']|'')*)'/g)].map(([, text = '']) => text.replaceAll("''", "'"));
  const numbers = [...sql.matchAll(/\b\d[\d_.]*/g)].map(([text]) => text);
  return [...strings, ...numbers].sort((a, b) => b.length - a.length);
}

/** Whether a message about a value quotes nothing but literals of the query. */
function quotesOwnLiteral(message: string, sql: string): boolean {
  if (!ofValue.test(message)) return false;
  let rest = message;
  for (const literal of literalsOf(sql)) {
    rest = rest.replaceAll(`'${literal}'`, '').replaceAll(`"${literal}"`, '').replaceAll(`value ${literal} `, 'value ');
  }
  const left = rest.replace(/\b(U?INT|FLOAT|DECIMAL)\d+\b/g, '').replace(/\([A-Z]{4}-[A-Z]{2}(-[A-Z]{2})?.*?\)/g, '');
  return rest !== message && !/['"\d]/.test(left);
}

/** DuckDB's message, and below it the line that it marks with a caret, unless that is of another query around the author's. */
function parted(said: string, sql: string): { message: string; line: string | undefined } {
  const [whole, marked = ''] = /(?<!\n)\n+LINE \d+: (.*)/.exec(said) ?? [];
  if (whole === undefined) return { message: said, line: undefined };
  const at = said.indexOf(whole);
  const isOwn = sql.includes(marked.replace(/^\.\.\.|\.\.\.$/g, '').trim());
  // A tab would be shown as two characters, and the caret would point beside its place.
  return { message: said.slice(0, at).trim(), line: isOwn ? said.slice(at).trim().replaceAll('\t', ' ') : undefined };
}

const hint = 'the tables: cdsync query "show tables"';

/**
 * The error for the author of a query on the command line. DuckDB's message about the query's own text is shown, with its literals and
 * the line that it marks; a message that quotes a stored value is not, unless values are asked for.
 */
export function ownQueryError(thrown: unknown, sql: string, showsValues: boolean): CdsyncError {
  const error = queryError(thrown, hint, 'configuration');
  if (error.code !== 'sql_failed') return error;
  const { cause } = error;
  const { message, line } = parted(duckdbMessage(cause), sql);
  // All that the driver says.
  if (message === 'Error in native callback') return reworded(error, 'the SQL has no statement', { hint, cause });
  // The general form leaves out messages about values, and says so.
  const [, hidden] = /^DuckDB refused the query( \(.*\))$/.exec(error.message) ?? [];
  const isShown = hidden === undefined || showsValues || quotesOwnLiteral(message, sql);
  return reworded(error, `DuckDB refused the query${isShown ? `: ${message}` : hidden?.replace('--verbose ', '')}`, {
    hint: line === undefined ? hint : `${line}\n${hint}`,
    cause,
    causeQuotesValues: true,
  });
}

/** SQL for messages, without its literals: they may hold personal values. Also removes a literal that an excerpt cuts off. */
export function withoutLiterals(sql: string): string {
  return sql.replace(/'(?:[^'\n]|'')*('|$)/gm, "'…'");
}

/** The error for a failure of DuckDB. DuckDB's own message may quote records, so it is kept only in the cause. */
export function databaseError(cause: unknown): CdsyncError {
  const { reason, name } = classify(messageOf(cause));
  if (reason === 'corrupt') {
    return new CdsyncError('DuckDB met a file that is torn or damaged', {
      code: 'state_unreadable',
      hint: 'cdsync verify says which; everything published stays as it was. Restore the storage folder from a backup',
      cause,
      causeQuotesValues: true,
    });
  }
  if (reason === 'memory') return memoryExceeded(cause);
  if (reason !== undefined) return storageError(reason, 'DuckDB could not do its work', cause);
  return new CdsyncError(`DuckDB refused a statement (${name})`, {
    code: 'database_failed',
    hint: 'its message may quote records, and is shown with --verbose --show-values',
    cause,
    causeQuotesValues: true,
  });
}

/** DuckDB's words if the system gave no memory, though it may use more. */
const systemRefuses = /bad.alloc|allocation failure/i;

function memoryExceeded(cause: unknown): CdsyncError {
  if (systemRefuses.test(messageOf(cause))) return memoryRefused('DuckDB', cause);
  return new CdsyncError('DuckDB needs more memory than it may use', {
    code: 'memory_exceeded',
    hint: 'raise `resources.memory_mb`, of which DuckDB has a part: it is for the whole process',
    cause,
  });
}

/** Whether DuckDB wants memory. It says so in words that also occur in other messages: ask for this first. */
export function wantsMemory(cause: unknown): boolean {
  return classify(messageOf(cause)).reason === 'memory';
}

/** Whether DuckDB says that a file is not a database of DuckDB, or is torn. */
export function isCorruption(error: unknown): boolean {
  return reasons.corrupt.test(messageOf(error instanceof CdsyncError ? error.cause : error));
}

/** Codes that become `sql_failed` for a query: a file that cannot be read is one that the query names. */
const isOfQuery = new Set(['database_failed', 'state_unreadable', 'storage_failed', 'storage_permission']);

/** A file of cdsync, which no query names: a part that is written, rows that do not fit in memory. */
const ownFile = /[\\/]\.cdsync[\\/]/;

/** The message of the macros of published files, through DuckDB, for a time before their history. It names no value of a record. */
export const beforeHistory = '_as_of: nothing is kept of that time';

/** DuckDB's message about a statement, without its client's words about the step that failed. */
function duckdbMessage(cause: unknown): string {
  return messageOf(cause)
    .replace(/^Failed to extract statements: /, '')
    .trim();
}

/**
 * The error that the author of a query sees if DuckDB refuses it. Messages about names and grammar quote only the query, and
 * are shown; messages about values quote records, and are left out.
 */
export function queryError(thrown: unknown, hint: string, kind: ErrorKind = 'fatal'): CdsyncError {
  const cause = thrown instanceof CdsyncError ? thrown.cause : thrown;
  const said = duckdbMessage(cause);
  const failure = thrown instanceof CdsyncError ? thrown : databaseError(thrown);
  if (ownFile.test(said) || (failure === thrown && !isOfQuery.has(failure.code))) return failure;
  const { reason, name } = classify(said, ['memory']);
  if (reason === 'memory') return memoryExceeded(cause);
  const ofNames = /^(Parser|Binder|Catalog|IO|Permission|Not implemented) Error/.test(said);
  const harmless = ofNames || said.includes(beforeHistory) || said.includes('attached in read-only mode');
  const shown = harmless
    ? `: ${withoutLiterals(said)}`
    : ` (${name}; its message may quote records: --verbose --show-values)`;
  return new CdsyncError(`DuckDB refused the query${shown}`, {
    code: 'sql_failed',
    kind,
    hint,
    cause,
    causeQuotesValues: true,
  });
}

/**
 * The error for a statement that DuckDB refused for a reason that is not the connector's own, without DuckDB's message: that may quote rows.
 * @param did the refused work, for the message
 */
export function duckdbRefused(did: string, cause: unknown): CdsyncError {
  const { reason, name } = classify(messageOf(cause), ['ENOSPC', 'memory']);
  if (reason === 'ENOSPC')
    return loadRefused('there is no space left for the work of a load', {
      cause,
      causeQuotesValues: true,
      hint: 'the storage folder of the job needs space for about twice the whole table',
    });
  if (reason === 'memory')
    return loadRefused('DuckDB needs more memory than it may use to load', {
      cause,
      hint: systemRefuses.test(messageOf(cause)) ? liftLimit : 'raise `memory_mb` of the destination',
    });
  return loadRefused(`${did} (${name})`, { cause, causeQuotesValues: true });
}

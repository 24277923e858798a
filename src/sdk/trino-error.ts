import { printable } from '../core/printable.js';
import {
  type CdsyncError,
  loadRefused,
  loginRefused,
  permissionMissing,
  unavailable,
  untrusted,
  valueRefused,
} from './errors.js';

/** What Trino says of a statement that failed (`QueryError` of its client protocol). */
export interface TrinoFailure {
  readonly message: string;
  readonly errorName: string;
  readonly errorType: string;
}

/** The cause of an error that Trino reported. Its message may quote values of rows. */
class TrinoRefusal extends Error {
  readonly errorName: string;

  constructor({ message, errorName }: TrinoFailure) {
    super(message);
    this.errorName = errorName;
  }
}

/** Failures that end by themselves: a server that starts or stops, a full queue, another writer, a killed query. */
const passing = new Set([
  ...['SERVER_STARTING_UP', 'SERVER_SHUTTING_DOWN', 'NO_NODES_AVAILABLE', 'ABANDONED_QUERY', 'ABANDONED_TASK'],
  ...['ADMINISTRATIVELY_KILLED', 'ADMINISTRATIVELY_PREEMPTED', 'USER_CANCELED', 'QUERY_QUEUE_FULL', 'QUERY_REJECTED'],
  ...['TRANSACTION_CONFLICT', 'CLUSTER_OUT_OF_MEMORY', 'EXCEEDED_TIME_LIMIT', 'REMOTE_HOST_GONE'],
]);

/** Failures of values; their messages may quote the values, and so may a message that quotes the statement. */
const ofValues = new Set([
  ...['INVALID_CAST_ARGUMENT', 'INVALID_FUNCTION_ARGUMENT', 'NUMERIC_VALUE_OUT_OF_RANGE', 'INVALID_LITERAL'],
  ...['CONSTRAINT_VIOLATION', 'JDBC_ERROR', 'JDBC_NON_TRANSIENT_ERROR', 'SYNTAX_ERROR', 'DIVISION_BY_ZERO'],
  ...['MERGE_TARGET_ROW_MULTIPLE_MATCHES', 'JSON_INPUT_CONVERSION_ERROR', 'INVALID_ROW_FILTER'],
]);

/** The error name that Trino gave for this failure, such as `NOT_SUPPORTED`; undefined if the failure is not Trino's. */
export function trinoFailureName(error: unknown): string | undefined {
  const { cause } = error as { readonly cause?: unknown };
  return cause instanceof TrinoRefusal ? cause.errorName : undefined;
}

/** A failed statement as an error of cdsync. */
export function trinoError(failure: TrinoFailure): CdsyncError {
  const { errorName, errorType } = failure;
  const cause = new TrinoRefusal(failure);
  const message = `${printable(failure.message)} (${errorName})`;
  if (errorName === 'PERMISSION_DENIED')
    return permissionMissing(`Trino: ${message}`, {
      cause,
      hint: 'the user must be able to create, alter and drop tables in the schema, and to select, insert, update and delete rows there',
    });
  if (/^(CATALOG|SCHEMA)_NOT_(FOUND|AVAILABLE)$|^MISSING_(CATALOG|SCHEMA)_NAME$/.test(errorName))
    return permissionMissing(`Trino: ${message}`, {
      cause,
      hint: 'check `catalog` and `schema`; SHOW CATALOGS lists what there is',
    });
  if (ofValues.has(errorName)) return valueRefused(`Trino refuses a value or a statement (${errorName})`, cause);
  if (errorName === 'QUERY_TEXT_TOO_LARGE')
    return loadRefused(`Trino: ${message}`, {
      cause,
      hint: 'give the destination a smaller `statement_chars`, or raise `query.max-length` of Trino',
    });
  if (passing.has(errorName) || errorType === 'EXTERNAL' || errorType === 'INTERNAL_ERROR')
    return unavailable(`Trino fails for now: ${message}`, { cause });
  return loadRefused(`Trino refuses a statement: ${message}`, { cause });
}

/** An answer without a result. @param body what came, of which a short piece is shown if it is plain text */
export function trinoHttpError(status: number, body: string): CdsyncError {
  const told = /^[\x20-\x7e]{1,200}$/.test(body.trim()) ? `: ${body.trim()}` : '';
  if (status === 401)
    return loginRefused(`Trino refuses the login${told}`, { hint: 'check `username`, and `password` or `token`' });
  if (status === 403)
    return loginRefused(`Trino refuses the request${told} (403)`, {
      hint: 'a password or token needs https://, and the user that it belongs to',
    });
  if (status === 410) return unavailable('Trino no longer knows the statement: was it restarted?');
  if (status === 429 || status >= 502) return unavailable(`Trino cannot work yet (status ${status})`);
  return loadRefused(`the answer does not come from a Trino coordinator (status ${status})`, {
    hint: 'is `url` the address of the coordinator, such as https://trino.example.com:8443? A redirect is not followed',
  });
}

/** A request without an answer. */
export function trinoConnectionError(thrown: unknown): CdsyncError {
  const { code = '', message } = thrown as { readonly code?: string; readonly message: string };
  if (untrusted.test(code))
    return loginRefused(`no encrypted connection to Trino: ${printable(message)}`, {
      hint: 'for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file',
      cause: thrown,
    });
  return unavailable(`Trino cannot be reached, or has gone away: ${printable(message)}`, { cause: thrown });
}

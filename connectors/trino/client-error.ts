import {
  type CdsyncError,
  loadRefused,
  loginRefused,
  printable,
  serverErrors,
  unavailable,
  untrusted,
  valueRefused,
} from '../../src/sdk/index.js';

/** Trino's description of a failed statement (`QueryError` of its client protocol). */
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
  const errors = serverErrors('Trino', message, cause);
  if (errorName === 'PERMISSION_DENIED')
    return errors.permission(
      'the user must be able to create, alter and drop tables in the schema, and to select, insert, update and delete rows there',
    );
  if (/^(CATALOG|SCHEMA)_NOT_(FOUND|AVAILABLE)$|^MISSING_(CATALOG|SCHEMA)_NAME$/.test(errorName))
    return errors.permission('check `catalog` and `schema`; SHOW CATALOGS lists what there is');
  if (ofValues.has(errorName)) return valueRefused(`Trino refuses a value or a statement (${errorName})`, cause);
  if (errorName === 'QUERY_TEXT_TOO_LARGE')
    return loadRefused(`Trino: ${message}`, {
      cause,
      hint: 'give the destination a smaller `statement_chars`, or raise `query.max-length` of Trino',
    });
  if (passing.has(errorName) || errorType === 'EXTERNAL' || errorType === 'INTERNAL_ERROR') return errors.passing();
  return errors.statement();
}

/** The error for a response without a result. @param body a short plain text is shown */
export function trinoHttpError(status: number, body: string): CdsyncError {
  const quoted = /^[\x20-\x7e]{1,200}$/.test(body.trim()) ? `: ${body.trim()}` : '';
  if (status === 401)
    return loginRefused(`Trino refuses the login${quoted}`, { hint: 'check `username`, and `password` or `token`' });
  if (status === 403)
    return loginRefused(`Trino refuses the request${quoted} (403)`, {
      hint: 'a password or token needs https://, and the user that it belongs to',
    });
  if (status === 410) return unavailable('Trino no longer knows the statement: was it restarted?');
  if (status === 429 || status >= 502) return unavailable(`Trino cannot work yet (status ${status})`);
  return loadRefused(`the response is not from a Trino coordinator (status ${status})`, {
    hint: 'is `url` the address of the coordinator, such as https://trino.example.com:8443? A redirect is not followed',
  });
}

/** The error for a request without a response. */
export function trinoConnectionError(thrown: unknown): CdsyncError {
  const { code = '', message } = thrown as { readonly code?: string; readonly message: string };
  const errors = serverErrors('Trino', printable(message), thrown);
  if (!untrusted.test(code)) return errors.gone();
  return errors.encryption('for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file');
}

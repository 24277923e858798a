import { CdsyncError as CoreError, type ErrorDetails as CoreErrorDetails } from '../core/errors.js';
import { formatCount, formatCounted } from '../core/quantities.js';
import type { StateKey } from './load.js';

export type { ErrorKind } from '../core/errors.js';

/** Unlike in cdsync itself, the code may be one that only the connector has; its kind is then `fatal`, unless `kind` is set. */
export type ErrorDetails = CoreErrorDetails<string>;
export type CdsyncError = CoreError;
export const CdsyncError = CoreError as {
  new (message: string, details: ErrorDetails): CoreError;
  readonly prototype: CoreError;
};

interface Details {
  /** The reader's next step: one sentence. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
  /** The cause's message may hold values of records: it is shown only if the user asked for values. */
  readonly causeQuotesValues?: boolean;
}

/** The destination does not know the caller, or its password. The message is the server's, without any secret. Not retried. */
export function loginRefused(message: string, details: Details = {}): CdsyncError {
  return new CdsyncError(message, { code: 'destination_login', ...details });
}

/** The caller lacks a permission; the hint says what to grant. Not retried. */
export function permissionMissing(message: string, details: Details = {}): CdsyncError {
  return new CdsyncError(message, { code: 'destination_permission', ...details });
}

/** The destination cannot be reached, has gone away, or asks to wait. The load is repeated from its beginning. */
export function unavailable(message: string, details: Details = {}): CdsyncError {
  return new CdsyncError(message, { code: 'destination_unavailable', ...details });
}

/** The destination refuses the load, and would refuse it again. */
export function loadRefused(message: string, details: Details = {}): CdsyncError {
  return new CdsyncError(message, { code: 'destination_refused', ...details });
}

/** The same for a value: the server's message may quote it. @param remedy what helps, if not the value is wrong */
export function valueRefused(message: string, cause: unknown, remedy?: string): CdsyncError {
  const quoted = 'its message may quote values, and is shown with --verbose --show-values';
  const hint = remedy === undefined ? quoted : `${remedy}; ${quoted}`;
  return loadRefused(message, { hint, cause, causeQuotesValues: true });
}

/** An error for failures with certain words in their message, which it does not show; `says` and `hint` are its own. */
export type ErrorRow = readonly [
  when: RegExp,
  make: (message: string, details: Details) => CdsyncError,
  says: string | ((match: RegExpExecArray) => string),
  hint?: string,
];

/** The error of the first row that fits a failure's message; undefined if no row does. */
export function errorByWords(rows: readonly ErrorRow[], words: string, details: Details): CdsyncError | undefined {
  for (const [when, make, says, hint] of rows) {
    const match = when.exec(words);
    if (match !== null) return make(typeof says === 'string' ? says : says(match), { ...details, hint });
  }
  return undefined;
}

/** The error for a name that is taken by something other than a table. @param kind such as `a view`, or `not a table` */
export function notATable(name: string, kind: string): CdsyncError {
  return loadRefused(`"${name}" is ${kind}`, { hint: 'give the stream another table with `table:`' });
}

/**
 * The errors of a database server.
 * @param message the server's own, which must quote no values of rows
 */
export function serverErrors(server: string, message: string, cause: unknown) {
  return {
    login: (hint: string) => loginRefused(`${server} refuses the login: ${message}`, { hint, cause }),
    encryption: (hint: string) => loginRefused(`no encrypted connection to ${server}: ${message}`, { hint, cause }),
    permission: (hint: string) => permissionMissing(`${server}: ${message}`, { hint, cause }),
    passing: () => unavailable(`${server} fails for now: ${message}`, { cause }),
    gone: () => unavailable(`${server} cannot be reached, or has gone away: ${message}`, { cause }),
    statement: (hint?: string) => loadRefused(`${server} refuses a statement: ${message}`, { hint, cause }),
  };
}

/** The destination refuses to change a column's type, because something that the user made needs it as it is: a view, an index. */
export class ColumnNotWidened extends CoreError {
  readonly column: string;

  constructor(column: string, refusal: CoreError) {
    super(refusal.message, { code: 'destination_refused', hint: refusal.hint, cause: refusal });
    this.column = column;
  }

  /** For a statement that widens a column: other failures than a refusal stay as they are. */
  static rethrow(column: string): (error: unknown) => never {
    return (error) => {
      throw error instanceof CoreError && error.code === 'destination_refused'
        ? new ColumnNotWidened(column, error)
        : error;
    };
  }
}

/** Another delivery has written the record since it was read: the load must leave nothing behind. */
export function fenced({ stream, table }: StateKey): CdsyncError {
  return new CdsyncError(`another delivery has written table "${table}" at the same time`, {
    code: 'fenced',
    stream,
    hint: 'is the same table loaded from two places? Nothing of this load was kept; cdsync push tries again',
  });
}

/** Others have changed the number of rows during the load: the load must leave nothing behind. The next attempt loads all rows. */
export function tableMoved({ stream, table }: StateKey, expected: number, actual: number): CdsyncError {
  return new CdsyncError(
    `others have changed table "${table}" during the load: ${formatCounted(actual, 'row')}, ${formatCount(expected)} expected`,
    {
      code: 'table_moved',
      stream,
      hint: 'nothing of this load was kept',
    },
  );
}

/** The number of rows that arrived differs from the number sent: the load must leave nothing behind. */
export function countDiffers(what: string, expected: number, actual: number): CdsyncError {
  return new CdsyncError(`${what} holds ${formatCounted(actual, 'row')}, and ${formatCount(expected)} were sent`, {
    code: 'count_differs',
    hint: 'nothing of this load was kept',
  });
}

/**
 * Loads a vendor's library, which only users of its connector install.
 * @throws {CdsyncError} `connector_package_missing` with the command that installs it
 */
export async function vendorLibrary<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new CdsyncError(`the package ${name} is not installed`, {
      code: 'connector_package_missing',
      hint: `npm install ${name}`,
      cause: error,
    });
  }
}

/** Node.js error codes of a connection that failed or was lost; they become {@link unavailable}. */
export const connectionLost: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EPIPE',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

/** Node.js error codes of a connection whose other end is not trusted. */
export const untrusted = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO|WRONG_VERSION_NUMBER/;

/** What to do about it, if no option names the file of an authority. */
export const untrustedHint =
  'for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file; otherwise check host, port and scheme';

/** The error for a connection whose other end is not trusted. @param to such as a host @param code one of {@link untrusted} */
export function tlsRefused(to: string, code: string, details: Details): CdsyncError {
  return new CdsyncError(`there is no trusted connection to ${to} (${code})`, { code: 'destination_tls', ...details });
}

/** The error code of the operating system or of TLS, also of a cause; empty if there is none. */
export function systemCode(error: unknown): string {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown };
  return typeof code === 'string' ? code : cause === undefined ? '' : systemCode(cause);
}

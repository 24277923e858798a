/**
 * What the engine does with an error:
 * - `configuration`: refused before any work; exit 2.
 * - `auth`: the service or a destination refused the caller; exit 4 when all that failed failed so.
 * - `retryable`: may succeed if tried again; the client and the destinations' runner retry it, the rest treat it as fatal.
 * - `interrupted`: the caller asked to stop; exit 130.
 * - `locked`: another run has the job; exit 75.
 * - `fatal`: everything else; exit 1.
 */
export type ErrorKind = 'configuration' | 'auth' | 'retryable' | 'interrupted' | 'locked' | 'fatal';

export interface ErrorDetails {
  /** Stable, snake_case; every code is listed in docs/errors.md. */
  readonly code: string;
  readonly kind?: ErrorKind;
  /** What the reader can do next: one sentence. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
  readonly stream?: string | undefined;
  readonly destination?: string | undefined;
  readonly requestId?: string | undefined;
  /** The cause's message may hold values of records: it is shown only to who asked for values. */
  readonly causeQuotesValues?: boolean;
}

/** The one root of the errors that cdsync throws on purpose. Messages never carry secrets or personal values. */
export class CdsyncError extends Error {
  readonly code: string;
  readonly kind: ErrorKind;
  readonly hint: string | undefined;
  readonly requestId: string | undefined;
  readonly destination: string | undefined;
  readonly causeQuotesValues: boolean;
  stream: string | undefined;

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'CdsyncError';
    this.code = details.code;
    this.kind = details.kind ?? 'fatal';
    this.hint = details.hint;
    this.requestId = details.requestId;
    this.stream = details.stream;
    this.causeQuotesValues = details.causeQuotesValues ?? false;
    this.destination = details.destination;
  }
}

/** Any thrown value as a {@link CdsyncError}; what was not thrown on purpose becomes `unexpected`. */
export function asCdsyncError(thrown: unknown): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const system = thrown as NodeJS.ErrnoException | undefined;
  if (system?.code === 'ENOSPC' || system?.code === 'EDQUOT') {
    return new CdsyncError(`the disk is full: ${system.message}`, {
      code: 'disk_full',
      hint: 'free some space, then run again: the run goes on from its checkpoint',
      cause: thrown,
    });
  }
  if (system?.code === 'EACCES' || system?.code === 'EPERM') {
    return new CdsyncError(`no permission: ${system.message}`, {
      code: 'storage_permission',
      hint: 'check who owns the storage folder, and run as that user',
      cause: thrown,
    });
  }
  if (thrown instanceof Error && thrown.name === 'AbortError') {
    return new CdsyncError('interrupted', { code: 'interrupted', kind: 'interrupted', cause: thrown });
  }
  if (thrown instanceof SyntaxError) {
    // What a parser says of a text quotes it.
    return new CdsyncError('a text could not be parsed', {
      code: 'unexpected',
      cause: thrown,
      causeQuotesValues: true,
    });
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new CdsyncError(message, { code: 'unexpected', cause: thrown });
}

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

interface StorageProblem {
  readonly code: string;
  readonly says: string;
  readonly hint: string;
}

const goesOn = 'the run goes on from its checkpoint';
const full: StorageProblem = {
  code: 'disk_full',
  says: 'the disk is full',
  hint: `free some space, then run again: ${goesOn}`,
};
const noPermission: StorageProblem = {
  code: 'storage_permission',
  says: 'no permission',
  hint: 'check who owns the storage folder, and run as that user',
};
const tooManyFiles: StorageProblem = {
  code: 'too_many_files',
  says: 'too many files are open',
  hint: `raise the limit (ulimit -n), then run again: ${goesOn}`,
};

/** What the operating system answers to work on files, and what that means to whoever runs cdsync. */
const storageProblems: Readonly<Record<string, StorageProblem>> = {
  ENOSPC: full,
  EDQUOT: full,
  EFBIG: {
    code: 'disk_full',
    says: 'a file may not grow as far as it must',
    hint: `raise the limit of file sizes (ulimit -f), or use a file system without one, then run again: ${goesOn}`,
  },
  EACCES: noPermission,
  EPERM: noPermission,
  EROFS: { ...noPermission, says: 'the file system is read-only' },
  EMFILE: tooManyFiles,
  ENFILE: tooManyFiles,
};
const brokenStorage: StorageProblem = {
  code: 'storage_failed',
  says: 'the storage folder could not be worked on',
  hint: `check the disk and what else works on the folder, then run again: ${goesOn}`,
};

/**
 * An error of work on files, told by the operating system's code for it.
 * @param code such as `ENOSPC`; one that is not known is some other failure of the storage
 */
export function storageError(code: string, message: string, cause: unknown): CdsyncError {
  const { says, hint, ...problem } = storageProblems[code] ?? brokenStorage;
  return new CdsyncError(`${says}: ${message}`, { code: problem.code, hint, cause });
}

/** What work on a file or a handle of one has thrown: only that has a system call, and an address never. */
function storageFailure(thrown: unknown): CdsyncError | undefined {
  const { code, syscall, address } = (thrown ?? {}) as NodeJS.ErrnoException & { readonly address?: string };
  if (typeof code !== 'string' || !/^E[A-Z0-9]+$/.test(code)) return undefined;
  const isKnown = storageProblems[code] !== undefined;
  if (!isKnown && (syscall === undefined || address !== undefined)) return undefined;
  return storageError(code, (thrown as Error).message, thrown);
}

/** Any thrown value as a {@link CdsyncError}; what was not thrown on purpose becomes `unexpected`. */
export function asCdsyncError(thrown: unknown): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const failure = storageFailure(thrown);
  if (failure !== undefined) return failure;
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

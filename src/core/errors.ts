import { type ErrorCode, type ErrorKind, errorType } from './error-codes.js';

export type { ErrorKind } from './error-codes.js';

export interface ErrorDetails<Code extends string = ErrorCode> {
  /** Stable, snake_case; every code is listed in docs/errors.md. */
  readonly code: Code;
  /** Default: the kind that {@link errorType} has for the code. */
  readonly kind?: ErrorKind | undefined;
  /** The next step for the reader: one sentence. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
  readonly stream?: string | undefined;
  readonly destination?: string | undefined;
  readonly requestId?: string | undefined;
  /** The cause's message may hold values of records: it is shown only if the user asked for values. */
  readonly causeQuotesValues?: boolean;
}

const brand = Symbol.for('cdsync.error');

/** The root class of every error that cdsync throws on purpose. Messages never carry secrets or personal values. */
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
    this.kind = details.kind ?? errorType(details.code).kind ?? 'fatal';
    this.hint = details.hint;
    this.requestId = details.requestId;
    this.stream = details.stream;
    this.causeQuotesValues = details.causeQuotesValues ?? false;
    this.destination = details.destination;
  }

  /** A connector may have its own copy of cdsync, with a class of this name. Subclasses compare as usual. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: a subclass inherits this function.
    if (this !== CdsyncError) return Function.prototype[Symbol.hasInstance].call(this, value);
    return typeof value === 'object' && value !== null && brand in value;
  }

  get [brand](): true {
    return true;
  }

  /** Whether a run may resume the reading before the error. */
  get resumable(): boolean {
    return errorType(this.code).resumable ?? true;
  }
}

/** An error of the same code and kind in other words. */
export function reworded(
  { code, kind }: CdsyncError,
  message: string,
  details: Omit<ErrorDetails, 'code' | 'kind'>,
): CdsyncError {
  return new CdsyncError(message, { ...details, code: code as ErrorCode, kind });
}

/** The error of work that the caller asked to stop. */
export function interrupted(cause?: unknown): CdsyncError {
  return new CdsyncError('interrupted', { code: 'interrupted', cause });
}

interface StorageProblem {
  readonly code: ErrorCode;
  readonly says: string;
  readonly hint: string;
}

const resumes = 'the run resumes from its checkpoint';
const full: StorageProblem = {
  code: 'disk_full',
  says: 'the disk is full',
  hint: `free some space, then run again: ${resumes}`,
};
const noPermission: StorageProblem = {
  code: 'storage_permission',
  says: 'no permission',
  hint: 'check who owns the storage folder, and run as that user',
};
const tooManyFiles: StorageProblem = {
  code: 'too_many_files',
  says: 'too many files are open',
  hint: `raise the limit (ulimit -n), then run again: ${resumes}`,
};

/** Error codes of the operating system for files, and their meaning for the user. */
const storageProblems: Readonly<Record<string, StorageProblem>> = {
  ENOSPC: full,
  EDQUOT: full,
  EFBIG: {
    code: 'disk_full',
    says: 'a file reached the largest size allowed',
    hint: `raise the limit of file sizes (ulimit -f), or use a file system without one, then run again: ${resumes}`,
  },
  EACCES: noPermission,
  EPERM: noPermission,
  EROFS: {
    ...noPermission,
    says: 'the file system is read-only',
    hint: 'mount it for writing, or point `storage` at a folder that can be written',
  },
  ELOOP: {
    code: 'storage_link',
    says: 'a link is at the place of a file of cdsync',
    hint: 'find out who put it there, remove it, and run again',
  },
  EMFILE: tooManyFiles,
  ENFILE: tooManyFiles,
};
const brokenStorage: StorageProblem = {
  code: 'storage_failed',
  says: 'the storage folder could not be read or written',
  hint: `check the disk and what else uses the folder, then run again: ${resumes}`,
};

/**
 * The error for a failed file operation, by the operating system's error code.
 * @param code such as `ENOSPC`; an unknown one becomes `storage_failed`
 */
export function storageError(code: string, message: string, cause: unknown): CdsyncError {
  const { says, hint, ...problem } = storageProblems[code] ?? brokenStorage;
  return new CdsyncError(`${says}: ${message}`, { code: problem.code, hint, cause });
}

/** Whether a file operation threw it: such errors name a system call and never an address. */
export function isSystemError(thrown: unknown): thrown is NodeJS.ErrnoException & { readonly code: string } {
  const { code, syscall, address } = (thrown ?? {}) as NodeJS.ErrnoException & { readonly address?: string };
  if (typeof code !== 'string' || !/^E[A-Z0-9]+$/.test(code)) return false;
  return storageProblems[code] !== undefined || (syscall !== undefined && address === undefined);
}

/** Any thrown value as a {@link CdsyncError}; errors that cdsync did not throw on purpose become `unexpected`. */
export function asCdsyncError(thrown: unknown): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  if (isSystemError(thrown)) return storageError(thrown.code, thrown.message, thrown);
  if (thrown instanceof Error && thrown.name === 'AbortError') return interrupted(thrown);
  if (thrown instanceof SyntaxError) {
    // A parser's message quotes the text.
    return new CdsyncError('a text could not be parsed', {
      code: 'unexpected',
      cause: thrown,
      causeQuotesValues: true,
    });
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  // Of the loader of libraries, which gives no code.
  if (/failed to map segment|cannot allocate memory/i.test(message)) return memoryRefused('cdsync', thrown);
  return new CdsyncError(message, { code: 'unexpected', cause: thrown });
}

/** What helps where the system limits addresses, or has no memory left. */
export const liftLimit =
  'lift the limit of this process (ulimit -v, prlimit --as): Node and DuckDB reserve more addresses than they use. Limit memory by a cgroup and `resources.memory_mb`';

/** The error if the system gives no memory, though the process may use more by its own limits. */
export function memoryRefused(requester: string, cause: unknown): CdsyncError {
  return new CdsyncError(`the system refuses ${requester} more memory`, {
    code: 'memory_refused',
    hint: liftLimit,
    cause,
  });
}

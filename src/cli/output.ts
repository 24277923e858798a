import { CdsyncError } from '../core/errors.js';
import type { RunReport } from '../core/run.js';

/** Options that every command takes. */
export interface CommonArguments {
  json: boolean;
  quiet: boolean;
  verbose: boolean;
  showValues: boolean;
  envFile?: string | undefined;
}

/** Where a command's words go: results to standard output, everything about the work to standard error. */
export class Output {
  readonly #arguments: CommonArguments;
  #redact: (text: string) => string = (text) => text;

  constructor(common: CommonArguments) {
    this.#arguments = common;
  }

  /** Every line passes through this from now on. */
  redactWith(redact: (text: string) => string): void {
    this.#redact = redact;
  }

  /** For people; not shown with --json. */
  result(line: string): void {
    if (!this.#arguments.json) process.stdout.write(`${this.#redact(line)}\n`);
  }

  /** Whether the result is one document (--json). */
  get isDocument(): boolean {
    return this.#arguments.json;
  }

  /** The one document of --json. */
  document(value: unknown): void {
    this.documentText(JSON.stringify(value));
  }

  /** The same, of what is JSON already. */
  documentText(json: string): void {
    if (this.#arguments.json) process.stdout.write(`${this.#redact(json)}\n`);
  }

  notice(line: string): void {
    if (!this.#arguments.quiet) process.stderr.write(`${this.#redact(line)}\n`);
  }

  detail(line: string): void {
    if (this.#arguments.verbose) process.stderr.write(`${this.#redact(line)}\n`);
  }

  /** Shown even when quiet. */
  error(error: CdsyncError): void {
    const place = error.stream === undefined ? '' : `stream ${error.stream}: `;
    process.stderr.write(`${this.#redact(`error: ${place}${error.message} [${error.code}]`)}\n`);
    if (error.hint !== undefined) process.stderr.write(`${this.#redact(`  ${error.hint}`)}\n`);
    const mayShow = this.#arguments.showValues || !error.causeQuotesValues;
    if (mayShow && error.cause instanceof Error) this.detail(`  cause: ${error.cause.stack ?? error.cause}`);
  }

  last(line: string): void {
    process.stderr.write(`${this.#redact(line)}\n`);
  }
}

/** The document of --json where a command could not begin. */
export function failureDocument(error: CdsyncError): RunReport {
  return {
    status: error.kind === 'locked' ? 'locked' : error.kind === 'interrupted' ? 'interrupted' : 'failed',
    jobs: [],
    error: { code: error.code, message: error.message, hint: error.hint ?? null, request_id: error.requestId ?? null },
  };
}

/** What the last line of a command that failed is about. */
export interface Ending {
  readonly code: number;
  /** Undefined where the command ended before it was known. */
  readonly storage?: string | undefined;
  readonly job?: string | undefined;
  readonly config?: string | undefined;
  /** The run that a guard holds. */
  readonly held?: string | undefined;
}

/** An error of a command that knew its job by then. */
export class CommandFailure extends Error {
  readonly ending: Omit<Ending, 'code'>;

  constructor(cause: unknown, ending: Omit<Ending, 'code'>) {
    super('the command failed', { cause });
    this.ending = ending;
  }
}

/** What a command exits with that was stopped by an error (contract: exit codes). */
export function exitCodeOf({ kind }: CdsyncError): number {
  const codes: Record<CdsyncError['kind'], number> = {
    configuration: 2,
    auth: 4,
    interrupted: 130,
    locked: 75,
    retryable: 1,
    fatal: 1,
  };
  return codes[kind];
}

/** A wrong word on the command line. */
export function usageError(message: string, hint: string): CdsyncError {
  return new CdsyncError(message, { code: 'usage', kind: 'configuration', hint });
}

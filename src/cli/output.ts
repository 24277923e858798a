import { CdsyncError } from '../core/errors.js';
import type { RunReport } from '../core/run.js';
import { type LogFormat, type LogLevel, logLine } from './log-line.js';

/** Options that every command takes. */
export interface CommonArguments {
  json: boolean;
  quiet: boolean;
  verbose: boolean;
  showValues: boolean;
  logFormat: LogFormat;
  envFile?: string | undefined;
}

/** What a log line is about, besides its message. */
type Facts = Readonly<Record<string, unknown>>;

/**
 * Where a command's words go: results to standard output, everything about the work to standard error, there as text or as
 * one JSON object a line. Secrets and the run are those of the process, since an error may be told by another instance.
 */
export class Output {
  static #redact: (text: string) => string = (text) => text;
  static #about: Facts = {};
  readonly #arguments: CommonArguments;

  constructor(common: CommonArguments) {
    this.#arguments = common;
  }

  /** The output of a command line that begins: nothing is known yet of its secrets and its run. */
  static begin(common: CommonArguments): Output {
    Output.#redact = (text) => text;
    Output.#about = {};
    return new Output(common);
  }

  /** Every line passes through this from now on. */
  redactWith(redact: (text: string) => string): void {
    Output.#redact = redact;
  }

  /** The job, and later the run, that each log line names from now on. */
  about(facts: { job?: string; run_id?: string }): void {
    Output.#about = { ...Output.#about, ...facts };
  }

  /** For people; not shown with --json. */
  result(line: string): void {
    if (!this.#arguments.json) process.stdout.write(`${Output.#redact(line)}\n`);
  }

  /** Whether the result is one document (--json). */
  get isDocument(): boolean {
    return this.#arguments.json;
  }

  /** Whether standard error is for machines (--log-format json). */
  get logsJson(): boolean {
    return this.#arguments.logFormat === 'json';
  }

  /** The one document of --json. */
  document(value: unknown): void {
    this.documentText(JSON.stringify(value));
  }

  /** The same, of what is JSON already. */
  documentText(json: string): void {
    if (this.#arguments.json) process.stdout.write(`${Output.#redact(json)}\n`);
  }

  notice(line: string): void {
    if (this.#arguments.quiet) return;
    const [warning] = /^warning: /.exec(line) ?? [];
    if (warning === undefined || !this.logsJson) this.#line(line, { level: 'info', event: 'notice' });
    else this.#line(line.slice(warning.length), { level: 'warning', event: 'notice' });
  }

  /** What happened, for machines; people are told in other words. */
  event(event: string, facts: Facts, level: LogLevel = 'info'): void {
    if (this.logsJson && !this.#arguments.quiet) this.#log({ level, event, ...facts });
  }

  detail(line: string): void {
    if (this.#arguments.verbose) this.#line(line, { level: 'debug', event: 'detail' });
  }

  /** Shown even when quiet. */
  error(error: CdsyncError): void {
    const { code, stream, message, hint, requestId, cause } = error;
    const mayShow = this.#arguments.verbose && (this.#arguments.showValues || !error.causeQuotesValues);
    const stack = mayShow && cause instanceof Error ? String(cause.stack ?? cause) : undefined;
    if (this.logsJson) {
      const facts = { code, message, hint, stream, request_id: requestId, cause: stack };
      this.#log({ level: 'error', event: 'error', ...facts });
      return;
    }
    const place = stream === undefined ? '' : `stream ${stream}: `;
    this.#text(`error: ${place}${message} [${code}]`);
    if (hint !== undefined) this.#text(`  ${hint}`);
    if (stack !== undefined) this.#text(`  cause: ${stack}`);
  }

  /** The last line of a command that failed. */
  last(line: string): void {
    this.#line(line, { level: 'info', event: 'next_step' });
  }

  #line(message: string, about: { level: LogLevel; event: string }): void {
    if (this.logsJson) this.#log({ ...about, message });
    else this.#text(message);
  }

  #text(line: string): void {
    process.stderr.write(`${Output.#redact(line)}\n`);
  }

  #log(entry: Facts & { level: LogLevel; event: string }): void {
    const { level, event, ...facts } = entry;
    const known = { time: new Date().toISOString(), level, event, ...Output.#about };
    process.stderr.write(`${logLine({ ...known, ...facts }, Output.#redact)}\n`);
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
  /** Only a full run mends it. */
  readonly full?: boolean;
  /** A destination lacks something. */
  readonly undelivered?: boolean | undefined;
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

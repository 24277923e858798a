import { ConfigError, type ConfigProblem, describeProblem } from '../config/problem.js';
import { type CommandPlace, completed } from '../core/command-hints.js';
import { errorType } from '../core/error-codes.js';
import { CdsyncError } from '../core/errors.js';
import { type Failure, mendsItself } from '../core/failures.js';
import { formatNames } from '../core/quantities.js';
import type { RunReport } from '../core/run-report.js';
import { writeData, writeJson, writeLine } from './standard-streams.js';

/** The formats of standard error. */
export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];
type LogLevel = 'debug' | 'info' | 'warning' | 'error';

/** The most failures, and names of streams of one, that --quiet shows. */
const maxFailures = 10;

/** The variable that replaces --log-format. */
export const logFormatVariable = 'CDSYNC_LOG_FORMAT';

/** One entry of a log as one line of JSON; texts in it pass through `redact` before they are escaped. */
function logLine(entry: Readonly<Record<string, unknown>>, redact: (text: string) => string): string {
  return JSON.stringify(entry, (_, value: unknown) => (typeof value === 'string' ? redact(value) : value));
}

/** Logs the warnings of the process (deprecated calls, say) as entries, so that every line of standard error is one. */
export function logStrayWarnings(log: (message: string) => void): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => log(`${warning.name}: ${warning.message}`));
}

/** Options that every command takes. */
export interface CommonArguments {
  json: boolean;
  quiet: boolean;
  verbose: boolean;
  showValues: boolean;
  logFormat: LogFormat;
  envFile?: string | undefined;
}

/** The job, run and stream of a log line, besides its message. */
type LogDetails = Readonly<Record<string, unknown>>;

/**
 * The output of a command: results go to standard output, everything about the work to standard error, as text or as one
 * JSON object per line. The process keeps the secrets and the run, because another instance may write the error.
 */
export class Output {
  static #redact: (text: string) => string = (text) => text;
  static #about: LogDetails = {};
  static #place: CommandPlace = {};
  readonly #arguments: CommonArguments;

  constructor(common: CommonArguments) {
    this.#arguments = common;
  }

  /** The output of a new command line: forgets secrets and run of an earlier one in the process. */
  static begin(common: CommonArguments): Output {
    Output.#redact = (text) => text;
    Output.#about = {};
    Output.#place = {};
    return new Output(common);
  }

  /** From now on, every line passes through `redact`. */
  redactWith(redact: (text: string) => string): void {
    Output.#redact = redact;
  }

  /** From now on, every log line names this job, and later this run. */
  about(details: { job?: string | undefined; run_id?: string }): void {
    Output.#about = 'job' in details ? details : { ...Output.#about, ...details };
  }

  /** From now on, commands that are named in hints work on the same. */
  at(place: CommandPlace): void {
    Output.#place = { ...Output.#place, ...place };
  }

  /** A hint whose commands work on the same, and on this one of its jobs. */
  hint(text: string, job: string): string {
    const { jobs } = Output.#place;
    return completed(text, { ...Output.#place, jobs: jobs && [job] });
  }

  /** A line of the result, for people, that may name a next command; not shown with --json. */
  advice(line: string): void {
    this.result(completed(line, Output.#place));
  }

  /** A line of the result, for people; not shown with --json. */
  result(line: string): void {
    if (!this.#arguments.json) writeLine('stdout', Output.#redact(line));
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
    const hint = (key: string, value: unknown) =>
      key === 'hint' && typeof value === 'string' ? completed(value, Output.#place) : value;
    this.documentText(JSON.stringify(value, hint));
  }

  /** The same, for text that is JSON already. */
  documentText(json: string): void {
    if (this.#arguments.json) writeJson('stdout', `${Output.#redact(json)}\n`);
  }

  /** A line of the result that is JSON; not shown with --json. */
  resultJson(json: string): void {
    if (!this.#arguments.json) writeJson('stdout', `${Output.#redact(json)}\n`);
  }

  /** A line of the result for another program, exact unless a terminal shows it; not shown with --json. */
  resultData(line: string): void {
    if (!this.#arguments.json) writeData(`${Output.#redact(line)}\n`);
  }

  /** A warning about the configuration. `cdsync check` shows it again, so it is left out when quiet. */
  remark(line: string): void {
    if (!this.#arguments.quiet) this.#notice(completed(line, Output.#place));
  }

  /** A line about the work. When quiet, only warnings are shown: something needs attention, although the command continues. */
  notice(line: string): void {
    if (this.#arguments.quiet && !line.startsWith('warning: ')) return;
    this.#notice(completed(line, Output.#place));
  }

  #notice(line: string): void {
    const [warning] = /^warning: /.exec(line) ?? [];
    if (warning === undefined || !this.logsJson) this.#line(line, { level: 'info', event: 'notice' });
    else this.#line(line.slice(warning.length), { level: 'warning', event: 'notice' });
  }

  /** An event for machines; people see it in other words. */
  event(event: string, details: LogDetails, level: LogLevel = 'info'): void {
    if (this.logsJson && !this.#arguments.quiet) this.#log({ level, event, ...details });
  }

  detail(line: string): void {
    if (this.#arguments.verbose) this.#line(line, { level: 'debug', event: 'detail' });
  }

  /** A line for the service that runs the command, which takes it from either stream; as it is, whatever the log format. */
  annotation(line: string): void {
    this.#text(line);
  }

  /** The error that ended a command, and its last line. People get a hint only if that line does not say the same. */
  failure(error: CdsyncError, last: string): void {
    this.error(error, { last });
    this.last(last);
  }

  /** Shown even when quiet. @param job the one that it concerns, if the command works on several */
  error(error: CdsyncError, { job, last = '' }: { job?: string; last?: string } = {}): void {
    const { code, stream, message, requestId } = error;
    const hint = error.hint && completed(error.hint, Output.#place);
    const stack = this.#causeOf(error);
    if (this.logsJson) {
      const details = { code, message, hint, stream, request_id: requestId, cause: stack };
      this.#log({ level: 'error', event: 'error', ...details });
      return;
    }
    const place = `${job === undefined ? '' : `job ${job}: `}${stream === undefined ? '' : `stream ${stream}: `}`;
    const isSaidLast = error.hint !== undefined && last.startsWith(error.hint);
    const advice = hint === undefined || isSaidLast ? '' : `${this.#arguments.quiet ? '; ' : '\n'}${hint}`;
    this.#text(`error: ${place}${message} [${code}]${advice}`);
    if (stack !== undefined) this.#text(`  cause: ${stack}`);
  }

  /** With --quiet, each failure of a job as one line, up to a number. @param isAlone whether the command has no other job */
  failures(all: readonly Failure[], job: string, isAlone: boolean): void {
    if (!this.#arguments.quiet) return;
    for (const { streams, destination, error, isHeld } of all.slice(0, maxFailures)) {
      const { code, message, request_id: requestId } = error;
      const next = error.hint ?? (destination === undefined ? errorType(code).next : undefined);
      const hint = next && this.hint(next, job);
      const names = formatNames(streams, maxFailures);
      if (this.logsJson) {
        const details = { stream: names, destination, code, message, hint, request_id: requestId };
        this.#log({ level: 'error', event: 'error', ...details });
        continue;
      }
      const place = [isAlone ? '' : `job ${job}`, destination ?? '', names].filter((word) => word !== '');
      const line = `${[...place, isHeld ? 'held' : 'failed', message].join(': ')} [${code}]${hint ? `; ${hint}` : ''}`;
      this.#text(line.replaceAll(/\s*[\r\n]+\s*/g, ' '));
    }
    const more = all.length - maxFailures;
    if (more > 0) this.#line(`and ${more} more`, { level: 'error', event: 'error' });
  }

  get showsValues(): boolean {
    return this.#arguments.showValues;
  }

  /** Why a part of the work failed, for those who ask for causes; what failed is in the result. */
  cause(error: CdsyncError): void {
    const stack = this.#causeOf(error);
    if (stack === undefined) return;
    const { code, stream } = error;
    if (this.logsJson) this.#log({ level: 'debug', event: 'cause', code, stream, cause: stack });
    else this.#text(`${stream === undefined ? '' : `stream ${stream}: `}cause of ${code}: ${stack}`);
  }

  #causeOf({ cause, causeQuotesValues }: CdsyncError): string | undefined {
    const mayShow = this.#arguments.verbose && (this.#arguments.showValues || !causeQuotesValues);
    return mayShow && cause instanceof Error ? String(cause.stack ?? cause) : undefined;
  }

  /** The last line of a command that failed. */
  last(line: string): void {
    this.#line(completed(line, Output.#place), { level: 'info', event: 'next_step' });
  }

  #line(message: string, about: { level: LogLevel; event: string }): void {
    if (this.logsJson) this.#log({ ...about, message });
    else this.#text(message);
  }

  #text(line: string): void {
    writeLine('stderr', Output.#redact(line));
  }

  #log(entry: LogDetails & { level: LogLevel; event: string }): void {
    const { level, event, ...details } = entry;
    const common = { time: new Date().toISOString(), level, event, ...Output.#about };
    writeJson('stderr', `${logLine({ ...common, ...details }, Output.#redact)}\n`);
  }
}

function problemEntry({ file, line, column, path, ...fault }: ConfigProblem) {
  return { file, line, column, path, message: describeProblem({ ...fault, line, column, path: '' }) };
}

/** The document of --json for a command that could not begin. */
export function failureDocument(error: CdsyncError): RunReport {
  return {
    status: error.kind === 'locked' ? 'locked' : error.kind === 'interrupted' ? 'interrupted' : 'failed',
    retry: mendsItself(error),
    jobs: [],
    error: { code: error.code, message: error.message, hint: error.hint ?? null, request_id: error.requestId ?? null },
    ...(error instanceof ConfigError ? { problems: error.problems.map(problemEntry) } : {}),
  };
}

/** The reasons for the last line of a command that failed. */
export interface Ending {
  readonly code: number;
  /** The code of the error that ended the command, and the command. */
  readonly errorCode?: string | undefined;
  /** What decides is a result that a guard holds. */
  readonly isHeld?: boolean | undefined;
  /** The streams that it is about; none if their age does not matter. Undefined for the job as a whole. */
  readonly streams?: readonly string[] | undefined;
  readonly command?: string | undefined;
  /** Undefined if the command failed before it knew it. */
  readonly storage?: string | undefined;
  readonly job?: string | undefined;
  /** The run that a guard holds. */
  readonly held?: string | undefined;
  /** A stream that it holds. */
  readonly heldStream?: string | undefined;
  /** The command that repairs the files that `verify` found damaged. */
  readonly remedy?: 'full' | 'move' | 'move and full' | 'backup' | 'format';
  /** A destination is not up to date. */
  readonly undelivered?: boolean | undefined;
  /** Streams and destinations of the snapshot before an approval. */
  readonly old?: readonly string[] | undefined;
  /** The command worked on several jobs, and `job` is the one that decides. */
  readonly isOneOfSeveral?: boolean | undefined;
  /** The next step, if the command knows better than its exit code. */
  readonly next?: string | undefined;
}

/** An error of a command that already knows its job. */
export class CommandFailure extends Error {
  readonly ending: Omit<Ending, 'code'>;

  constructor(cause: unknown, ending: Omit<Ending, 'code'>) {
    super('the command failed', { cause });
    this.ending = ending;
  }
}

/** The exit code of a command that an error stopped (contract: exit codes). */
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
  return new CdsyncError(message, { code: 'usage', hint });
}

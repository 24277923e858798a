import { type ChildProcess, spawn } from 'node:child_process';
import { basename } from 'node:path';
import type { Readable } from 'node:stream';
import type { AfterCommand } from '../config/config.js';
import { callAfter, sleep } from '../core/clock.js';
import { formatDuration } from '../core/quantities.js';
import { mayRetryResult, type RunResult } from './result.js';

/** The most lines of one command that are shown, and the most characters of one line. */
const maxLines = 500;
const maxCharacters = 4_000;
/** How long a command may take to stop after the signal. */
const graceMs = 5_000;
/** How long processes that a command leaves in the background may keep its output open. */
const outputMs = 1_000;

interface AfterSurroundings {
  /** Folder of the configuration. */
  readonly folder: string;
  /** The environment of cdsync itself. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Variables that hold secrets of the configuration: commands do not get them. */
  readonly secretVariables: readonly string[];
  /** Aborts when the user asks to stop while commands run: the present one is stopped, and no other begins. */
  readonly signal: AbortSignal;
  /** Shows the user a line, on standard error. */
  readonly notice: (line: string) => void;
}

/** A word of a command, with its placeholders replaced. */
function filledWord(word: string, { job, runId, status, report }: RunResult): string {
  const placeholders: Record<string, string> = { job, run_id: runId ?? '', status, report: report ?? '' };
  return word.replace(/\{(job|run_id|status|report)\}/g, (_, name: string) => placeholders[name] as string);
}

/** The environment of a command: that of cdsync without its secrets, and the run's variables. */
function commandEnvironment(
  { env, secretVariables }: Pick<AfterSurroundings, 'env' | 'secretVariables'>,
  run: RunResult,
): Record<string, string | undefined> {
  const { job, runId, status, report } = run;
  const own = Object.entries(env).filter(([name]) => !secretVariables.includes(name));
  const variables = {
    CDSYNC_JOB: job,
    CDSYNC_RUN_ID: runId ?? '',
    CDSYNC_STATUS: status,
    CDSYNC_REPORT: report ?? '',
    CDSYNC_RETRY: String(mayRetryResult(run)),
  };
  return { ...Object.fromEntries(own), ...variables };
}

/** Runs the commands one after the other. It never throws: what goes wrong with one is a notice. */
export async function runAfter(
  commands: readonly AfterCommand[],
  run: RunResult,
  surroundings: AfterSurroundings,
): Promise<void> {
  const { signal, notice } = surroundings;
  // A run that was interrupted still has its commands: only a signal after this moment stops them.
  const isStopping = signal.aborted ? () => false : () => signal.aborted;
  for (const command of commands) {
    if (isStopping()) return notice('warning: commands of `after` were left out, because cdsync was asked to stop');
    const [program = ''] = command.run;
    const failure = await runCommand(command, run, surroundings);
    if (failure !== undefined) notice(`warning: after: ${basename(program)} ${failure}`);
  }
}

/** @returns what went wrong, to follow the name of the program */
async function runCommand(
  { run: words, deadline }: AfterCommand,
  run: RunResult,
  surroundings: AfterSurroundings,
): Promise<string | undefined> {
  const { folder, signal, notice } = surroundings;
  const [program = '', ...rest] = words.map((word) => filledWord(word, run));
  const name = basename(program);
  const child = spawn(program, rest, {
    cwd: folder,
    env: commandEnvironment(surroundings, run),
    stdio: ['ignore', 'pipe', 'pipe'],
    // Its own group, so that all that it starts can be stopped with it.
    detached: true,
  });
  const stop = new Stopping(child, deadline);
  const onSignal = () => stop.begin();
  if (!signal.aborted) signal.addEventListener('abort', onSignal, { once: true });
  const show = shownLines((line) => notice(`${name}: ${line}`));
  show(child.stdout);
  show(child.stderr);
  try {
    return await endOf(child, stop);
  } finally {
    signal.removeEventListener('abort', onSignal);
    stop.release();
  }
}

/** Stops a command with all that it started: SIGTERM at the deadline or when it is asked to, SIGKILL if that did not help. */
class Stopping {
  readonly #child: ChildProcess;
  readonly #timers: (() => void)[];
  readonly #deadline: number;
  reason: string | undefined;
  readonly #atExit = () => this.#send('SIGKILL');

  constructor(child: ChildProcess, deadline: number) {
    this.#child = child;
    this.#deadline = deadline;
    this.#timers = [
      callAfter(deadline, () => this.begin(`had not ended after ${formatDuration(deadline)}, and was stopped`)),
    ];
    // Of a process that ends in a hurry nothing may be left.
    process.on('exit', this.#atExit);
  }

  begin(reason = 'was stopped, because cdsync was asked to stop'): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.#send('SIGTERM');
    this.#timers.push(callAfter(Math.min(graceMs, this.#deadline), () => this.#send('SIGKILL')));
  }

  release(): void {
    for (const cancel of this.#timers) cancel();
    process.off('exit', this.#atExit);
    // What ignored SIGTERM while its parent obeyed.
    if (this.reason !== undefined) this.#send('SIGKILL');
  }

  #send(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // The group has ended.
    }
  }
}

/** Waits for the end of a command. @returns what went wrong */
async function endOf(child: ChildProcess, stop: Stopping): Promise<string | undefined> {
  // A stream is closed before its last line is shown: only this event is late enough.
  const closed = new Promise((resolve) => child.once('close', resolve));
  const ended = await new Promise<{ error?: NodeJS.ErrnoException; code?: number | null; signal?: string | null }>(
    (resolve) => {
      child.once('error', (error) => resolve({ error }));
      child.once('exit', (code, signal) => resolve({ code, signal }));
    },
  );
  await closedWithin(child, closed, outputMs);
  if (stop.reason !== undefined) return stop.reason;
  if (ended.error !== undefined) return `could not be started: ${startFailure(ended.error)}`;
  if (ended.signal != null) return `was ended by ${ended.signal}`;
  return ended.code === 0 ? undefined : `ended with code ${ended.code}`;
}

function startFailure({ code }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'there is no such program (a path is relative to the folder of the configuration)';
  if (code === 'EACCES') return 'it may not be executed (chmod +x)';
  return code ?? 'unknown error';
}

/** Waits until all output was read, but not for a background process that keeps it open. */
async function closedWithin(child: ChildProcess, closed: Promise<unknown>, ms: number): Promise<void> {
  const stop = new AbortController();
  await Promise.race([closed, sleep(ms, stop.signal).catch(() => undefined)]);
  stop.abort();
  for (const stream of [child.stdout, child.stderr]) stream?.destroy();
}

/** Shows the lines of a command's outputs, up to a number, and of each line as much as people read. */
function shownLines(show: (line: string) => void): (output: Readable | null) => void {
  let lines = 0;
  const line = (text: string) => {
    lines += 1;
    if (lines <= maxLines) show(text.length > maxCharacters ? `${text.slice(0, maxCharacters).toWellFormed()}…` : text);
    else if (lines === maxLines + 1) show(`(more than ${maxLines} lines: the rest is not shown)`);
  };
  return (output) => {
    if (output === null) return;
    let rest = '';
    // The process reports its end.
    output.on('error', () => undefined);
    output.setEncoding('utf8').on('data', (text: string) => {
      const whole = `${rest}${text}`.split('\n');
      // A line may never end: one character more than is shown says that there was more.
      rest = (whole.pop() ?? '').slice(0, maxCharacters + 1);
      for (const text of whole) line(text.replace(/\r$/, ''));
    });
    output.on('close', () => {
      if (rest !== '') line(rest);
    });
  };
}

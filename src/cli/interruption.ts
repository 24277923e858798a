import type { Output } from './output.js';

export interface Interruption {
  readonly signal: AbortSignal;
  /**
   * The command has reported its end. A signal that arrives while the process ends does not change that; a second one still
   * ends it at once.
   */
  release(): void;
}

/** One press of Ctrl-C may come twice: from the terminal, and from a launcher such as npx that passes it on. */
const samePressMs = 500;

/** What asks a command to stop. A terminal that is closed sends SIGHUP. */
const asking = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Takes away the listeners of before: those for any command, or of the command before if the process runs several. */
let withdraw = () => {};

/** Resources that are open until the command line ends. */
const open: (() => Promise<void>)[] = [];

/** @param close is called when the command line ends, whether or not it succeeds */
export function closeAtEnd(close: () => Promise<void>): void {
  open.push(close);
}

/** Closes the resources of a command that has ended. An error of that changes nothing. */
export async function closeResources(): Promise<void> {
  await Promise.allSettled(open.splice(0).map((close) => close()));
}

/**
 * Until a command listens to signals itself, the first SIGINT or SIGTERM ends it.
 * @param end reports the end, and ends the process
 */
export function endAtSignal(end: () => void): void {
  leaveSignals();
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  withdraw = () => {
    process.off('SIGINT', end);
    process.off('SIGTERM', end);
  };
}

/** From now on, the command's own listeners handle signals. */
export function leaveSignals(): void {
  withdraw();
  withdraw = () => {};
}

/**
 * The first SIGINT, SIGTERM or SIGHUP asks to stop; the second ends the process at once.
 * @param says what becomes of the work, if there is something to say of it
 */
export function interruption(output: Output, says?: string): Interruption {
  const controller = new AbortController();
  let askedAt = Number.NEGATIVE_INFINITY;
  let isReported = false;
  const stop = () => {
    const at = performance.now();
    if (at - askedAt < samePressMs) return;
    if (controller.signal.aborted) process.exit(130);
    askedAt = at;
    if (!isReported) output.notice(`stopping${says === undefined ? '' : `: ${says}`} (once more to stop at once)`);
    controller.abort();
  };
  leaveSignals();
  for (const name of asking) process.on(name, stop);
  withdraw = () => {
    for (const name of asking) process.off(name, stop);
  };
  return {
    signal: controller.signal,
    release: () => {
      isReported = true;
    },
  };
}

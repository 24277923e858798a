import type { Output } from './output.js';

export interface Interruption {
  readonly signal: AbortSignal;
  /** Restores what the signals do by default. */
  release(): void;
}

/** One press of Ctrl-C may come twice: from the terminal, and from a launcher such as npx that passes it on. */
const samePressMs = 500;

/** What asks a command to stop. A terminal that is closed sends SIGHUP. */
const asking = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * The first SIGINT, SIGTERM or SIGHUP asks to stop; the second ends the process at once.
 * @param says what becomes of the work, if there is something to say of it
 */
export function interruption(output: Output, says?: string): Interruption {
  const controller = new AbortController();
  let askedAt = Number.NEGATIVE_INFINITY;
  const stop = () => {
    const at = performance.now();
    if (at - askedAt < samePressMs) return;
    if (controller.signal.aborted) process.exit(130);
    askedAt = at;
    output.notice(`stopping${says === undefined ? '' : `: ${says}`} (once more to stop at once)`);
    controller.abort();
  };
  for (const name of asking) process.on(name, stop);
  return {
    signal: controller.signal,
    release: () => {
      for (const name of asking) process.off(name, stop);
    },
  };
}

import type { Output } from './output.js';

export interface Interruption {
  readonly signal: AbortSignal;
  /** Restores what the signals do by default. */
  release(): void;
}

/** One press of Ctrl-C may come twice: from the terminal, and from a launcher such as npx that passes it on. */
const samePressMs = 500;

/** The first SIGINT or SIGTERM asks to stop with a checkpoint; the second ends the process at once. */
export function interruption(
  output: Output,
  says = 'stopping: what was read is being kept (once more to stop at once)',
): Interruption {
  const controller = new AbortController();
  let askedAt = Number.NEGATIVE_INFINITY;
  const stop = () => {
    const at = performance.now();
    if (at - askedAt < samePressMs) return;
    if (controller.signal.aborted) process.exit(130);
    askedAt = at;
    output.notice(says);
    controller.abort();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return {
    signal: controller.signal,
    release: () => {
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
    },
  };
}

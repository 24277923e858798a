import type { Output } from './output.js';

export interface Interruption {
  readonly signal: AbortSignal;
  /** Gives the signals back to their defaults. */
  release(): void;
}

/** The first SIGINT or SIGTERM asks to stop with a checkpoint; the second ends the process at once. */
export function interruption(
  output: Output,
  says = 'stopping: what was read is being kept (once more to stop at once)',
): Interruption {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(130);
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

import { interrupted } from './errors.js';

/**
 * Waits for work that others share: an abort ends the waiting, not the work.
 * @throws {CdsyncError} `interrupted` as soon as the signal aborts, and what the work throws
 */
export function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(interrupted(signal.reason));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

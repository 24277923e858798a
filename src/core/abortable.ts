import { interrupted } from './errors.js';
import { onAbort } from './on-abort.js';

/**
 * Waits for work that several callers share: an abort ends the wait, not the work.
 * @throws {CdsyncError} `interrupted` as soon as the signal aborts, and what the work throws
 */
export function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const release = onAbort(signal, () => reject(interrupted(signal.reason)));
    work.then(resolve, reject).finally(release);
  });
}

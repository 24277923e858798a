import type { Clock } from './clock.js';
import { interrupted } from './errors.js';

/**
 * The functions to call when a signal aborts. One listener serves all callers of a signal: a run shares one signal among
 * hundreds of requests, but a signal warns of a leak beyond ten listeners, and removes a listener by a linear search.
 */
const callbacks = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `callback` once, as soon as the signal aborts; at once if it has already.
 * @returns a function that withdraws the callback
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  const listeners = callbacks.get(signal) ?? listen(signal);
  listeners.add(callback);
  return () => listeners.delete(callback);
}

function listen(signal: AbortSignal): Set<() => void> {
  const added = new Set<() => void>();
  callbacks.set(signal, added);
  signal.addEventListener(
    'abort',
    () => {
      for (const callback of added) callback();
      added.clear();
    },
    { once: true },
  );
  return added;
}

/**
 * Waits for work that several callers share: an abort ends the wait, not the work.
 * @throws {CdsyncError} `interrupted` as soon as the signal aborts; errors of the work
 */
export function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const release = onAbort(signal, () => reject(interrupted(signal.reason)));
    work.then(resolve, reject).finally(release);
  });
}

/** @throws {CdsyncError} `interrupted` as soon as the signal aborts */
export async function sleepUntilAborted(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const stop = new AbortController();
  const release = onAbort(signal, () => stop.abort());
  try {
    await clock.sleep(ms, stop.signal);
  } catch (error) {
    throw interrupted(error);
  } finally {
    release();
  }
}

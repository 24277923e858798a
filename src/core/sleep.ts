import type { Clock } from './clock.js';
import { interrupted } from './errors.js';
import { onAbort } from './on-abort.js';

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

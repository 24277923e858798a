/** The time that all waits and timestamps use; tests pass a clock of their own. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may jump. */
  now(): number;
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonic(): number;
  /** Resolves after `ms`, or rejects with an `AbortError` as soon as `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Node fires a timer with a longer span after 1 ms. Only this module may set timers; a test searches the others for them. */
const maxTimerMs = 2 ** 31 - 1;

/**
 * Calls `callback` once, after `ms`, however long that is.
 * @returns a function that cancels the call
 */
export function callAfter(ms: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number) => {
    const next = leftMs > maxTimerMs ? () => arm(leftMs - maxTimerMs) : callback;
    timer = setTimeout(next, Math.min(leftMs, maxTimerMs));
  };
  arm(ms);
  return () => clearTimeout(timer);
}

/** Calls `callback` every `ms`, at least once in 24 days. `clearInterval` ends it. */
export function callEvery(ms: number, callback: () => void): NodeJS.Timeout {
  return setInterval(callback, Math.min(ms, maxTimerMs));
}

/** Aborts after `ms`, for one request: after 24 days even if `ms` is more. It does not keep the process alive. */
export function abortAfter(ms: number): AbortSignal {
  return AbortSignal.timeout(Math.min(Math.ceil(ms), maxTimerMs));
}

/** Resolves after `ms`, or rejects with an `AbortError` as soon as the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel();
      reject(new DOMException('interrupted', 'AbortError'));
    };
    if (signal?.aborted) {
      reject(new DOMException('interrupted', 'AbortError'));
      return;
    }
    const cancel = callAfter(ms, () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
    signal?.addEventListener('abort', stop, { once: true });
  });
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now(), sleep };

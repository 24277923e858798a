/**
 * What is to be called when a signal aborts. One listener serves all callers of a signal: a run shares one signal among
 * hundreds of requests, and a signal warns of a leak beyond ten listeners, and finds each of them by searching.
 */
const callbacks = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `callback` once, as soon as the signal aborts; at once where it has.
 * @returns what takes it back
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  const known = callbacks.get(signal) ?? listen(signal);
  known.add(callback);
  return () => known.delete(callback);
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

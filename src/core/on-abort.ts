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

import { type ServiceClient, ServiceError } from '../../api/client.js';
import { lookupProfileByGetOperation, lookupProfileOperation, readRealtimeProfile } from '../../api/realtime-api.js';

/** The identity keys of one lookup: names with their values. */
export type Keychain = Readonly<Record<string, string>>;

export interface LookupTask {
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly collection: string;
  readonly enrich: boolean;
  readonly method: 'post' | 'get';
  /** How many lookups run in parallel. */
  readonly atOnce: { readonly count: number };
}

/** One lookup (specification, sections 4.6 and 4.7). @returns the profile as the service's own JSON; null if none matches */
async function lookUp(task: LookupTask, keys: Keychain, signal: AbortSignal): Promise<string | null> {
  const { client, collection, enrich, method } = task;
  const operation = method === 'get' ? lookupProfileByGetOperation : lookupProfileOperation;
  const decode = (body: Buffer) => {
    readRealtimeProfile(body);
    // On one line. Numbers keep the service's text.
    return body.toString('utf8').replace(/("[^"\\]*(?:\\.[^"\\]*)*"?)|[ \t\r\n]+/g, '$1');
  };
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  return client.send(operation(collection, { keys, enrich }), decode, { signal, meter }).catch((error: unknown) => {
    if (error instanceof ServiceError && error.status === 404) return null;
    throw error;
  });
}

/**
 * Looks up profiles, several in parallel, and yields the results in the order of the keys. It yields a result as soon as that and
 * all earlier ones have arrived, even while it still reads keys. An error of a lookup, or of reading the keys, is thrown after
 * the results before it.
 */
export async function* lookUpProfiles(
  task: LookupTask,
  keychains: AsyncIterable<Keychain>,
): AsyncGenerator<string | null, void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([task.signal, stop.signal]);
  const iterator = keychains[Symbol.asyncIterator]();
  const waiting: Promise<string | null>[] = [];
  const ask = (keys: Keychain) => {
    const result = lookUp(task, keys, signal);
    // It is awaited in its turn; an earlier failure must not count as an unhandled rejection.
    result.catch(() => undefined);
    waiting.push(result);
  };
  let failure: { readonly cause: unknown } | undefined;
  const read = () =>
    iterator.next().catch((cause: unknown) => {
      failure = { cause };
      return { done: true, value: undefined } as const;
    });
  let next: ReturnType<typeof read> | undefined = read();
  try {
    while (next !== undefined || waiting.length > 0) {
      const [head] = waiting;
      const mayAsk = next !== undefined && waiting.length < task.atOnce.count;
      const arrived = head?.then(
        () => undefined,
        () => undefined,
      );
      const question: Awaited<ReturnType<typeof read>> | undefined = mayAsk
        ? await Promise.race([next, ...(arrived === undefined ? [] : [arrived])])
        : undefined;
      if (question === undefined) yield await (waiting.shift() as Promise<string | null>);
      else if (question.done) next = undefined;
      else {
        ask(question.value);
        next = read();
      }
    }
    if (failure !== undefined) throw failure.cause;
  } finally {
    stop.abort();
  }
}

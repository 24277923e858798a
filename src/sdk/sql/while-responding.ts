import { sleep } from '../../core/clock.js';
import { unavailable } from '../errors.js';

/** While a statement lasts, the server is asked this often whether it responds. */
const askMs = 15_000;

interface Responding {
  /** The server, in messages. */
  readonly server: string;
  /** Tries a new connection. @returns false if nothing responds to it; a refusal is a response */
  readonly responds: () => Promise<boolean>;
  /** Ends the connection of the statement. */
  readonly cut?: () => void;
  readonly everyMs?: number | undefined;
}

/**
 * Waits for a statement, which may take hours, while the server responds to new connections: one that is silent, or behind a firewall
 * that has forgotten the connection, never ends it.
 * @throws {CdsyncError} `destination_unavailable` if the server responds to neither
 */
export async function whileResponding<T>(
  work: Promise<T>,
  { server, responds, cut, everyMs = askMs }: Responding,
): Promise<T> {
  const ended = new AbortController();
  const silence = async (): Promise<undefined> => {
    do await sleep(everyMs, ended.signal);
    while ((await responds()) || (await responds()));
    return undefined;
  };
  try {
    const result = await Promise.race([work.then((value) => ({ value })), silence()]);
    if (result !== undefined) return result.value;
  } finally {
    ended.abort();
  }
  cut?.();
  throw unavailable(`${server} has gone silent: it responds neither to a statement nor to a new connection`);
}

import { type SendOptions, type ServiceClient, ServiceError } from '../api/client.js';
import type { Operation } from '../api/request.js';
import { cutOrRetry } from './page-fetcher.js';
import { cutPageExactly } from './scan/page-cutter.js';

/** Decodes the total of a page. */
export function readTotal(body: Buffer): number | null {
  return cutOrRetry(body, cutPageExactly).total;
}

/** Statuses that are about the key or the limit, not about the total. */
const notOfTotal = new Set([401, 403, 429]);

interface TotalOptions extends Omit<SendOptions, 'isOptional'> {
  /** Gets the status of a refusal. */
  readonly onRefusal?: (status: number) => void;
}

/**
 * Asks for a total that is of use but not needed: counting can be expensive for the service (specification, section 4.2), and some
 * services refuse it or take too long.
 * @returns null if the service gives none
 */
export async function optionalTotal(
  client: ServiceClient,
  operation: Operation,
  { onRefusal, ...options }: TotalOptions,
): Promise<number | null> {
  try {
    return await client.send(operation, readTotal, { ...options, isOptional: true });
  } catch (error) {
    const status = error instanceof ServiceError ? (error.status ?? 0) : 0;
    if (status < 400 || notOfTotal.has(status)) throw error;
    onRefusal?.(status);
    return null;
  }
}

/** Asks for the total of one list, not again after a refusal. */
export class ListTotal {
  readonly #client: ServiceClient;
  readonly #options: SendOptions & { readonly notice: (line: string) => void };
  #isRefused = false;

  constructor(client: ServiceClient, options: SendOptions & { readonly notice: (line: string) => void }) {
    this.#client = client;
    this.#options = options;
  }

  /** @param isNeeded whether the list cannot be read without it @returns null if the service gives none */
  async ask(operation: Operation, isNeeded: boolean): Promise<number | null> {
    const { notice, ...options } = this.#options;
    if (isNeeded) return this.#client.send(operation, readTotal, options);
    if (this.#isRefused) return null;
    const onRefusal = (status: number) => {
      this.#isRefused = true;
      notice(`the service answered ${status} to a request for the total of the list: it is read without one`);
    };
    return optionalTotal(this.#client, operation, { ...options, onRefusal });
  }
}

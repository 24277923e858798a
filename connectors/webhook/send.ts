import {
  NoResponse,
  type OptionValues,
  type OutgoingRecord,
  type RecordDestination,
  type RecordResult,
} from '../../src/sdk/index.js';
import type { Endpoint } from './exchange.js';
import type { WebhookShape } from './options.js';
import { batchOf, envelopeBytes, recordText, type Sender, signatureHeaders } from './types.js';
import { type Verdict, verdictOf } from './verdict.js';

/** A record with its text in a request. */
interface Item {
  readonly record: OutgoingRecord;
  readonly text: string;
}

/** Posts records in requests of a bounded length. */
export class WebhookDestination implements RecordDestination {
  readonly #endpoint: Endpoint;
  readonly #options: OptionValues<WebhookShape>;
  readonly #sender: Sender;

  constructor(endpoint: Endpoint, options: OptionValues<WebhookShape>, sender: Sender) {
    this.#endpoint = endpoint;
    this.#options = options;
    this.#sender = sender;
  }

  async send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]> {
    const items = batch.map((record): Item => ({ record, text: recordText(record) }));
    const results: RecordResult[] = [];
    for (const request of this.#requests(items)) {
      const last = results.at(-1);
      // After the receiver asks to wait, send nothing more: later records must not overtake earlier ones.
      if (last?.type === 'again') {
        results.push(...request.map(() => last));
        continue;
      }
      try {
        results.push(...(await this.#deliver(request, signal)));
      } catch (error) {
        // Records that were taken must not be sent again. The next request meets the error again.
        if (results.length === 0) throw error;
        results.push(...request.map((): RecordResult => ({ type: 'again', reason: (error as Error).message })));
      }
    }
    return results;
  }

  async close(): Promise<void> {
    await this.#endpoint.close();
  }

  /** Splits records into requests, in order. A record that is too long gets its own request. */
  #requests(items: readonly Item[]): Item[][] {
    const { maxRecords, maxBytes } = this.#options;
    const requests: Item[][] = [];
    let [current, bytes] = [[] as Item[], envelopeBytes];
    for (const item of items) {
      const length = Buffer.byteLength(item.text) + 1;
      if (current.length === maxRecords || (bytes + length > maxBytes && current.length > 0)) {
        requests.push(current);
        [current, bytes] = [[], envelopeBytes];
      }
      current.push(item);
      bytes += length;
    }
    return current.length === 0 ? requests : [...requests, current];
  }

  /** Sends records together. If the receiver refuses them, sends each half, until the refused records are found. */
  async #deliver(items: readonly Item[], signal: AbortSignal): Promise<RecordResult[]> {
    const { maxBytes } = this.#options;
    const bytes = items.reduce((total, { text }) => total + Buffer.byteLength(text) + 1, envelopeBytes);
    if (bytes > maxBytes) return [{ type: 'refused', reason: `longer than ${maxBytes} bytes (max_bytes)` }];
    const verdict = await this.#post(items, signal);
    if (verdict.type === 'results') return [...verdict.results];
    if (verdict.type === 'again' || items.length === 1) return items.map(() => verdict);
    const middle = Math.ceil(items.length / 2);
    const first = await this.#deliver(items.slice(0, middle), signal);
    const last = first.at(-1);
    const rest = items.slice(middle);
    return [...first, ...(last?.type === 'again' ? rest.map(() => last) : await this.#deliver(rest, signal))];
  }

  async #post(items: readonly Item[], signal: AbortSignal): Promise<Verdict> {
    const { signingSecret, headers } = this.#options;
    const texts = items.map(({ text }) => text);
    const records = items.map(({ record }) => record);
    const batch = batchOf(texts, this.#sender);
    const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value.reveal()]);
    const all = {
      'content-type': 'application/json',
      'user-agent': 'cdsync',
      'idempotency-key': batch.id,
      ...Object.fromEntries(own),
      ...(signingSecret === undefined ? {} : signatureHeaders(batch, signingSecret, Date.now())),
    };
    try {
      const response = await this.#endpoint.post(all, batch.body, signal);
      return verdictOf(response, records, this.#endpoint.host);
    } catch (error) {
      if (error instanceof NoResponse) return { type: 'again', reason: error.message };
      throw error;
    }
  }
}

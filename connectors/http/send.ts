import {
  CdsyncError,
  NoResponse,
  type OutgoingRecord,
  type PlannedRequest,
  parseExactly,
  type RecordCapabilities,
  type RecordDestination,
  type RecordResult,
  TemplateFailure,
} from '../../src/sdk/index.js';
import { askedWaitMs, type Sent, type Verdict, verdictOf } from './answer.js';
import { cleaner } from './clean.js';
import { type Exchange, targetOf, withQuery } from './exchange.js';
import {
  batchBody,
  compileForms,
  contentTypeOf,
  envelopeBytesOf,
  type Form,
  type HttpOptions,
  type Op,
  type Rendered,
} from './form.js';
import type { IdempotencyKeys } from './idempotency.js';
import type { Login } from './login.js';
import type { Rate } from './rate.js';
import { ResultsMisfit } from './results.js';
import { batchOf, type Sender, signatureHeaders } from './signed-batch.js';

/** A record as it is sent, and its place in the batch. */
interface Item extends Rendered {
  readonly record: OutgoingRecord;
  readonly at: number;
  readonly form: Form;
}

/** This many records that went alone, all refused, mean that not the records are wrong. */
const maxRefusedAtFirst = 20;
/** This many requests in a row that failed mean that the receiver is away: more than halves of the longest batch find one record in. */
const maxFailedInRow = 20;
/** A delivery does not wait longer because of the limit that a successful response reports: it ends, as after a 429. */
const maxLimitWaitMs = 300_000;

interface HttpParts {
  readonly exchange: Exchange;
  readonly login: Login;
  readonly rate: Rate;
  readonly sender: Sender;
  readonly keys: IdempotencyKeys;
  readonly notice: (line: string) => void;
}

/** Sends records as requests of the receiver's own form. */
export class HttpDestination implements RecordDestination {
  readonly capabilities: RecordCapabilities;
  readonly #options: HttpOptions;
  readonly #parts: HttpParts;
  readonly #forms: Record<Op, Form | 'skip'>;
  /** How often records failed in a request that was answered with 5xx, or not at all. */
  readonly #failures = new Map<string, number>();
  /** Requests in a row that the receiver failed on, or did not respond to. */
  #failedInRow = 0;
  /** Whether the present request was not answered, for the first time. */
  #isSilent = false;
  /** What logins gave, which no message may show. */
  #loginTexts: readonly string[] = [];
  /** Until when a successful response asks to wait (of `Date.now`). */
  #askedUntil = 0;
  #passed = 0;
  #refusedAlone = 0;
  #notTaken = 0;

  constructor(options: HttpOptions, parts: HttpParts) {
    this.#options = options;
    this.#parts = parts;
    this.#forms = compileForms(options);
    const most = Object.values(this.#forms).map((form) => (form === 'skip' ? 1 : form.batch.records));
    this.capabilities = { batchRecords: Math.max(...most), batchBytes: 16_000_000, batchesAtOnce: options.parallel };
  }

  async send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]> {
    const results: RecordResult[] = [];
    const items: Item[] = [];
    for (const [at, record] of batch.entries()) {
      const item = this.#item(record, at);
      if ('type' in item) results[at] = item;
      else items.push(item);
    }
    let stop: RecordResult | undefined;
    this.#failedInRow = 0;
    for (const request of this.#requests(items)) {
      // After the receiver asks to wait, or while it is away, send nothing more.
      if (stop !== undefined) {
        for (const { at } of request) results[at] = stop;
        continue;
      }
      this.#isSilent = false;
      try {
        await this.#deliver(request, results, signal);
      } catch (error) {
        // Records that were taken must not be sent again. The next request meets the error again.
        if (!items.some(({ at }) => results[at] !== undefined)) throw error;
        const reason = error instanceof CdsyncError ? error.message : 'the request failed';
        for (const { at } of items) results[at] ??= { type: 'again', reason };
        signal.throwIfAborted();
        return results;
      }
      const last = results[(request.at(-1) as Item).at];
      const isAway = this.#isSilent || this.#failedInRow >= maxFailedInRow;
      if (last?.type === 'again' && (last.isForAll || isAway)) stop = last;
    }
    return results;
  }

  /** The requests that records would go out in, without a login. */
  requestsOf(records: readonly OutgoingRecord[]): PlannedRequest[] {
    const items = records.map((record, at) => this.#item(record, at));
    return this.#requests(items.filter((item): item is Item => !('type' in item))).map((request) => {
      const [{ form, url }] = request as [Item];
      const { body, id } = this.#content(request);
      const headers = Object.entries(this.#headers(request, body, id, {})).map(([name, value]) => [
        name,
        name === 'webhook-signature' ? '***' : value,
      ]);
      return { method: form.method, url, headers: Object.fromEntries(headers), body };
    });
  }

  async close(): Promise<void> {
    if (this.#notTaken > 0)
      this.#parts.notice(`the receiver says that it did not take ${this.#notTaken} records, and not which`);
    await this.#parts.rate.close();
    await this.#parts.keys.close();
    await this.#parts.exchange.close();
  }

  #item(record: OutgoingRecord, at: number): Item | RecordResult {
    const form = this.#forms[record.op];
    if (form === 'skip') return { type: 'acknowledged' };
    try {
      return { record, at, form, ...form.render(record) };
    } catch (error) {
      if (error instanceof TemplateFailure) return { type: 'refused', reason: error.message, isUnsent: true };
      if (error instanceof CdsyncError && error.code === 'destination_url')
        return { type: 'refused', reason: 'its URL would not be one', isUnsent: true };
      throw error;
    }
  }

  /** Splits records into requests, in order: of one form, URL and headers each, none with two records of one name. */
  #requests(items: readonly Item[]): Item[][] {
    const open = new Map<string, { items: Item[]; bytes: number; names: Set<string> }>();
    const requests: Item[][] = [];
    for (const item of items) {
      const { form } = item;
      const headers = Object.values(item.headers);
      const place = headers.length === 0 ? form.op + item.url : JSON.stringify([form.op, item.url, ...headers]);
      const length = Buffer.byteLength(item.body) + 1;
      let current = open.get(place);
      const isFull =
        current !== undefined &&
        (current.items.length >= form.batch.records ||
          current.bytes + length > form.batch.bytes ||
          current.names.has(item.equals));
      if (current === undefined || isFull) {
        current = { items: [], bytes: envelopeBytesOf(form, item.record.stream), names: new Set() };
        open.set(place, current);
        requests.push(current.items);
      }
      current.items.push(item);
      current.bytes += length;
      current.names.add(item.equals);
    }
    // Records that failed again are last, and keep nothing from the others.
    const failures = ([first]: Item[]) => this.#failures.get((first as Item).record.id) ?? 0;
    return requests.sort((one, other) => Number(failures(one) > 1) - Number(failures(other) > 1));
  }

  /**
   * Sends records together. If the receiver refuses them, sends each half, until the refused records are found.
   * @param isKnownBad the request would fail: the records that were sent with it passed
   * @returns whether all of them passed
   */
  async #deliver(
    items: readonly Item[],
    results: RecordResult[],
    signal: AbortSignal,
    isKnownBad = false,
  ): Promise<boolean> {
    const [first] = items as [Item];
    const note = (result: RecordResult) => {
      for (const { at } of items) results[at] = result;
      return false;
    };
    const { records, bytes } = first.form.batch;
    if (items.length === 1 && Buffer.byteLength(first.body) + envelopeBytesOf(first.form, first.record.stream) > bytes)
      return note({ type: 'refused', reason: `longer than ${bytes} bytes (batch.bytes)` });
    if (isKnownBad && items.length > 1) return this.#halves(items, results, signal);
    const verdict = await this.#verdict(items, signal);
    if (verdict.type === 'again') {
      const times = this.#countFailures(items);
      const { reason, afterMs, isForAll } = verdict;
      this.#isSilent = verdict.isUnanswered === true && times < 2;
      this.#failedInRow += 1;
      const isAway = this.#failedInRow >= maxFailedInRow;
      if (isForAll || items.length === 1 || times < 2 || records === 1 || isAway)
        return note({ type: 'again', reason, afterMs, ...(isForAll ? { isForAll } : {}) });
      return this.#halves(items, results, signal);
    }
    this.#failedInRow = 0;
    if (verdict.type === 'refused') {
      if (items.length > 1) return this.#halves(items, results, signal);
      if (!verdict.mayPassLast) this.#failAlone(verdict.reason);
      return note(verdict);
    }
    const unnamed = items.filter((item, index) => {
      const result = verdict.results[index];
      if (result !== undefined) results[item.at] = result;
      if (result?.type === 'acknowledged') this.#pass(item);
      return result === undefined;
    });
    this.#notTaken += verdict.notTaken ?? 0;
    if (unnamed.length > 0 && unnamed.length < items.length) return this.#deliver(unnamed, results, signal);
    return verdict.results.every((result) => result?.type === 'acknowledged');
  }

  async #halves(items: readonly Item[], results: RecordResult[], signal: AbortSignal): Promise<boolean> {
    const middle = Math.ceil(items.length / 2);
    const [one, other] = [items.slice(0, middle), items.slice(middle)];
    const passed = await this.#deliver(one, results, signal);
    const last = one.map(({ at }) => results[at]).find((result) => result?.type === 'again' && result.isForAll);
    if (last !== undefined) {
      for (const { at } of other) results[at] = last;
      return false;
    }
    await this.#deliver(other, results, signal, passed);
    return false;
  }

  #pass({ record }: Item): void {
    this.#passed += 1;
    this.#failures.delete(record.id);
    this.#parts.keys.taken(record);
  }

  #countFailures(items: readonly Item[]): number {
    let most = 0;
    for (const { record } of items) {
      const times = (this.#failures.get(record.id) ?? 0) + 1;
      this.#failures.set(record.id, times);
      most = Math.max(most, times);
    }
    return most;
  }

  #failAlone(reason: string): void {
    this.#refusedAlone += 1;
    if (this.#passed > 0 || this.#refusedAlone < maxRefusedAtFirst) return;
    throw new CdsyncError(`the first ${maxRefusedAtFirst} records were all refused: ${reason}`, {
      code: 'records_refused',
      hint: 'correct the template, the login or the receiver: see the requests with cdsync push --dry-run --show-values',
    });
  }

  async #verdict(items: readonly Item[], signal: AbortSignal): Promise<Verdict> {
    const [{ form, url }] = items as [Item];
    const { host } = targetOf(url);
    const leftMs = this.#askedUntil - Date.now();
    if (leftMs > maxLimitWaitMs)
      return { type: 'again', reason: `${host} says that its limit is used up`, afterMs: leftMs, isForAll: true };
    const clean = cleaner(() => [
      ...items.flatMap(({ record, values }) => [parseExactly(record.json), record.key, ...values()]),
      ...this.#loginTexts,
    ]);
    const sent: Sent = {
      ...{ form, host, clean },
      names: items.map(({ equals }) => equals),
      ids: items.map(({ record }) => record.id),
    };
    try {
      const response = await this.#request(items, signal);
      const verdict = verdictOf(response, sent);
      const waitMs = askedWaitMs(response);
      if (verdict.type === 'results' && waitMs !== undefined) {
        this.#askedUntil = Math.max(this.#askedUntil, Date.now() + waitMs);
        if (waitMs <= maxLimitWaitMs) this.#parts.rate.pause(this.#askedUntil);
      }
      // A gateway responds 502 or 504 although the receiver may have done it: then only the same key is safe.
      if (verdict.type === 'again' && !verdict.isUnanswered && response.status !== 502 && response.status !== 504)
        this.#nextKey(items);
      if (verdict.type === 'results')
        this.#nextKey(items.filter((_, index) => verdict.results[index]?.type === 'again'));
      return verdict;
    } catch (error) {
      if (error instanceof NoResponse)
        return { type: 'again', reason: error.message, isForAll: false, isUnanswered: true };
      if (error instanceof ResultsMisfit) return { type: 'refused', reason: error.message };
      throw error;
    }
  }

  /** One request, with one new login if the token was refused. */
  async #request(items: readonly Item[], signal: AbortSignal) {
    const [{ form, url }] = items as [Item];
    const { login, rate, exchange } = this.#parts;
    const { body, id } = this.#content(items);
    for (let isSecond = false; ; isSecond = true) {
      const { response, credentials } = await rate.send(items.length, signal, async () => {
        // The limits may let it wait for longer than a token lives, or a signature counts.
        const credentials = await login.credentials(signal);
        this.#loginTexts = [...Object.values(credentials.headers), ...credentials.query.map(([, value]) => value)];
        const headers = this.#headers(items, body, id, credentials.headers);
        const hasBody = form.method !== 'GET' && body !== '';
        const request = { method: form.method, headers, body: hasBody ? body : undefined };
        return { credentials, response: await exchange.send(withQuery(url, credentials.query), request, signal) };
      });
      if (response.status !== 401) login.worked(credentials);
      if (response.status !== 401 || isSecond || !login.renew(credentials)) return response;
    }
  }

  /** The body of a request, and its id if it has one. */
  #content(items: readonly Item[]): { body: string; id?: string } {
    const [{ form, record }] = items as [Item];
    const texts = items.map(({ body }) => body);
    return form.isOwn ? batchOf(texts, this.#parts.sender) : { body: batchBody(form, texts, record.stream) };
  }

  #headers(
    items: readonly Item[],
    body: string,
    batchId: string | undefined,
    credentials: Readonly<Record<string, string>>,
  ) {
    const [{ form, headers, url }] = items as [Item];
    const { signingSecret, idempotency } = this.#options;
    const key =
      batchId ??
      (idempotency &&
        this.#parts.keys.keyOf(
          items.map(({ record }) => record),
          form.method,
          url,
          body,
        ));
    const name = idempotency?.header.toLowerCase() ?? 'idempotency-key';
    const isSigned = batchId !== undefined && signingSecret !== undefined;
    return {
      'user-agent': 'cdsync',
      ...(body === '' ? {} : { 'content-type': contentTypeOf(form) }),
      ...(form.isOwn ? {} : { accept: 'application/json' }),
      ...(key === undefined ? {} : { [name]: key }),
      ...credentials,
      ...headers,
      ...(isSigned ? signatureHeaders(batchId, body, signingSecret, Date.now()) : {}),
    };
  }

  #nextKey(items: readonly Item[]): void {
    if (this.#options.idempotency !== undefined) this.#parts.keys.failed(items.map(({ record }) => record));
  }
}

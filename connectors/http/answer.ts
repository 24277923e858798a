import { STATUS_CODES } from 'node:http';
import {
  type CdsyncError,
  type HttpResponse,
  loadRefused,
  loginRefused,
  permissionMissing,
  type RecordResult,
  z,
} from '../../src/sdk/index.js';
import type { Form, ResponseRules } from './form.js';
import { entriesIn, isPage, ResultsMisfit } from './results.js';
import { parsedBody, valuesAt } from './values-at.js';

/** The outcome of a request for its records. */
export type Verdict =
  /** One for each record; undefined: the response does not say, and the record must be sent again without the others. */
  | {
      readonly type: 'results';
      readonly results: readonly (RecordResult | undefined)[];
      readonly notTaken?: number | undefined;
    }
  /** The receiver refuses at least one of the records. */
  | { readonly type: 'refused'; readonly reason: string; readonly mayPassLast?: boolean }
  | {
      readonly type: 'again';
      readonly reason: string;
      readonly afterMs?: number | undefined;
      readonly isForAll: boolean;
      readonly isUnanswered?: boolean;
    };

/** Hints for statuses that mean a wrong endpoint, if the URL is the same for all records and the format is cdsync's own. */
const endpointHints: Readonly<Record<number, string>> = {
  404: 'is the path of `url` right?',
  405: 'the receiver does not accept POST there: is `url` right?',
  410: 'the receiver is no longer there: remove the destination, or give it another `url`',
  411: 'something between cdsync and the receiver drops the length of requests',
  415: 'the receiver does not accept JSON there: is `url` right?',
  501: 'is `url` right?',
  505: 'is `url` right?',
};

/** The results that a receiver of cdsync's own format may send with a status of 2xx. Records that it does not list are acknowledged. */
const ownResults = z.object({
  results: z.array(
    z.object({
      id: z.string(),
      status: z.enum(['acknowledged', 'refused', 'again']),
      reason: z.string().nullish(),
      column: z.string().nullish(),
      retry_after_ms: z.number().min(0).nullish(),
    }),
  ),
});

const defaultReasons = ['message', 'detail', 'error', 'title', 'error.message', 'errors.0.message'];

/** The form and the records of a request. */
export interface Sent {
  readonly form: Form;
  /** The names of the records in responses. */
  readonly names: readonly string[];
  /** Ids of the records. */
  readonly ids: readonly string[];
  /** For messages. */
  readonly host: string;
  /** Removes the values of the records from a text of the receiver. */
  readonly clean: (words: string) => string;
}

const fits = (status: number, word: string) => word === String(status) || word === `${String(status)[0]}xx`;

function said(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? ''}`.trim();
}

/** Milliseconds until the time of a header: seconds, a time in seconds or milliseconds since 1970, or a date. */
function waitMs(text: string, nowMs: number): number | undefined {
  const isNumber = /^\d+(\.\d+)?$/.test(text);
  const value = isNumber ? Number(text) * (Number(text) > 1e11 ? 1 : 1000) : Date.parse(text);
  if (Number.isNaN(value) || !(isNumber || /^(?:[a-z]{3}|\d{4}-)/i.test(text))) return undefined;
  return Math.max(0, isNumber && value <= 1e12 ? value : value - nowMs);
}

/**
 * The header `RateLimit`, with one limit or several: `"day";r=0;t=60, "second";r=5;t=1`, or in its earlier form
 * `limit=10, remaining=0, reset=7`. Of several, the one that is used up for the longest.
 */
function structuredLimit(text: string): { readonly remaining: string; readonly reset: string } | undefined {
  const limits = [...text.matchAll(/\b(?:r|remaining)=(\d+)[^"]{0,64}?\b(?:t|reset)=(\d+)/gi)].map(
    ([, remaining = '', reset = '']) => ({ remaining, reset }),
  );
  const usedUp = limits.filter(({ remaining }) => Number(remaining) === 0);
  return usedUp.sort((one, other) => Number(other.reset) - Number(one.reset))[0] ?? limits[0];
}

/** Milliseconds that a response asks to wait. A date is compared with the `Date` of the response. */
export function askedWaitMs({ headers, status }: Pick<HttpResponse, 'headers' | 'status'>): number | undefined {
  const header = (name: string) => {
    const value = headers[name];
    return (typeof value === 'object' ? value[0] : value)?.trim();
  };
  const wait = (text = '') => (text === '' ? undefined : waitMs(text, Date.parse(header('date') ?? '') || Date.now()));
  const after = wait(header('retry-after') ?? header('backoff'));
  if (after !== undefined) return after;
  const { ratelimit = [] } = headers;
  const structured = ratelimit.length === 0 ? undefined : structuredLimit([ratelimit].flat().join(', '));
  const remaining = structured?.remaining ?? header('ratelimit-remaining') ?? header('x-ratelimit-remaining');
  const reset = structured?.reset ?? header('ratelimit-reset') ?? header('x-ratelimit-reset');
  // Until the limit is used up, its end does not matter.
  return reset === undefined || (status !== 429 && Number(remaining ?? 1) > 0) ? undefined : wait(reset);
}

function isUsuallyAgain(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** Whether `again` names a status, of whatever kind: APIs report their limits with 200, too. */
function isNamedAgain(status: number, body: unknown, { again = [] }: ResponseRules): boolean {
  return again.some((rule) => {
    if (typeof rule === 'string') return fits(status, rule);
    return fits(status, rule.status) && valuesAt(body, rule.path).some((value) => rule.in.includes(String(value)));
  });
}

/** A response that sends on to another address: nobody has taken anything there. */
const redirects: readonly number[] = [301, 302, 303, 307, 308];

function isAccepted(status: number, { op, response, namesAccepted }: Form): boolean {
  if (redirects.includes(status)) return false;
  if (op === 'delete' && (status === 404 || status === 410) && !namesAccepted) return true;
  return (response.accepted ?? ['2xx']).some((word) => fits(status, word));
}

/** The first text at some paths, or in a list at one. If a configuration names the paths, also a number: the code of an error. */
function wordsAt(value: unknown, named: readonly string[] | string | undefined, otherwise = defaultReasons) {
  const values = [named ?? otherwise].flat().flatMap((path) => valuesAt(value, path).flat());
  const code = named === undefined ? undefined : values.find((part) => typeof part === 'number');
  return values.find((part): part is string => typeof part === 'string' && part !== '') ?? code?.toString();
}

/** The receiver's reason, without values; empty if it gives none in a known place. */
function reasonIn(body: unknown, response: HttpResponse, { form, clean }: Sent): string {
  const words = wordsAt(body, form.response.reason);
  if (words !== undefined) return `: ${clean(words)}`;
  const isText = String(response.headers['content-type'] ?? '').startsWith('text/plain') && body === undefined;
  return isText && response.body.trim() !== '' ? `: ${clean(response.body.slice(0, 500))}` : '';
}

function endpointError({ status }: HttpResponse, { form, host }: Sent): CdsyncError | undefined {
  const message = `${host} answered ${said(status)}`;
  if (status === 401)
    return loginRefused(message, { hint: 'check `auth`, or what `headers` or `url` give as credentials' });
  if (status === 403)
    return permissionMissing(message, {
      hint: 'the receiver has to allow these credentials, or this machine, to do this',
    });
  if (status === 407) return loginRefused(message, { hint: 'a proxy in between wants credentials' });
  if (status < 200 || (status >= 300 && status < 400))
    return loadRefused(`${message}, and redirects are not followed`, { hint: 'give `url` the final address' });
  const hint = form.isOwn && !form.hasUrlTemplate ? endpointHints[status] : undefined;
  return hint === undefined ? undefined : loadRefused(message, { hint });
}

/** Whether a member that would mean a refusal is absent, or has nothing in it: some receivers give every record a list of errors. */
function isNothing(mark: unknown): boolean {
  if (Array.isArray(mark)) return mark.length === 0;
  return mark === undefined || mark === null || mark === false || mark === '';
}

/** The result of one record, by its entry. */
function entryResult(value: unknown, sent: Sent, response: HttpResponse): RecordResult {
  const { form, clean } = sent;
  const { refused, ok, status, reason } = form.response.results as NonNullable<ResponseRules['results']>;
  const words = wordsAt(value, reason, ['', ...defaultReasons]);
  const because = words === undefined ? 'the receiver gives no reason' : clean(words);
  if (status !== undefined) {
    const code = Number(valuesAt(value, status)[0]);
    if (!(code >= 100 && code <= 999)) throw new ResultsMisfit('an entry of the results has no status');
    const isAsked = isNamedAgain(code, value, form.response);
    if (!isAsked && isAccepted(code, form)) return { type: 'acknowledged' };
    const says = `${said(code)}${words === undefined ? '' : `: ${because}`}`;
    if (isAsked || isUsuallyAgain(code))
      return { type: 'again', reason: says, afterMs: askedWaitMs({ ...response, status: code }) };
    return { type: 'refused', reason: says, mayPassLast: code === 409 };
  }
  if (ok !== undefined && valuesAt(value, ok)[0] === true) return { type: 'acknowledged' };
  const mark = refused === undefined ? undefined : valuesAt(value, refused)[0];
  if (ok === undefined && refused !== undefined && isNothing(mark)) return { type: 'acknowledged' };
  const own = typeof mark === 'string' && words === undefined ? clean(mark) : because;
  return { type: 'refused', reason: own };
}

function ownFormatResults(body: unknown, { ids, host, clean }: Sent): RecordResult[] {
  if (typeof body !== 'object' || body === null || !('results' in body))
    return ids.map(() => ({ type: 'acknowledged' }));
  const read = ownResults.safeParse(body);
  if (!read.success) {
    const [issue] = read.error.issues;
    // Taken for a success, it could lose refused records.
    const fault = `${issue?.path.join('.')}: ${issue?.message}`;
    const hint = 'each result has an `id` and a `status` of acknowledged, refused or again';
    throw loadRefused(`${host} answered with results that cannot be read: ${fault}`, { hint });
  }
  const byId = new Map(read.data.results.map((result) => [result.id, result]));
  const sent = new Set(ids);
  if ([...byId.keys()].some((id) => !sent.has(id)))
    throw new ResultsMisfit('an entry of the results names a record that was not sent');
  return ids.map((id): RecordResult => {
    const result = byId.get(id);
    if (result === undefined || result.status === 'acknowledged') return { type: 'acknowledged' };
    const reason = clean(result.reason ?? '') || 'the receiver gives no reason';
    if (result.status === 'again') return { type: 'again', reason, afterMs: result.retry_after_ms ?? undefined };
    return { type: 'refused', reason, column: result.column ?? undefined };
  });
}

/**
 * The verdict of a response about the records of its request.
 * @throws {CdsyncError} for a failure that neither other records nor another attempt would repair
 * @throws {ResultsMisfit} if its results are not about these records
 */
export function verdictOf(response: HttpResponse, sent: Sent): Verdict {
  const { status } = response;
  const { form, names } = sent;
  const body = parsedBody(response.body);
  const isAsked = isNamedAgain(status, body, form.response);
  const accepted = !isAsked && isAccepted(status, form);
  const again = isAsked || (!accepted && isUsuallyAgain(status));
  const broken = accepted || again ? undefined : endpointError(response, sent);
  if (broken !== undefined) throw broken;
  if (accepted && body === undefined && isRead(form) && /^\s*[{[]/.test(response.body))
    return {
      ...{ type: 'again', isForAll: false, isUnanswered: true },
      reason: `${sent.host} answered ${said(status)} with JSON that has no end`,
    };
  // Many servers say with a page that there is nothing to delete.
  if (accepted && status < 300 && isPage(response))
    throw loadRefused(`${sent.host} answered ${said(status)} with a page for people, which acknowledges nothing`, {
      hint: 'is `url` right, and is the login? Pages to log in are answered so',
    });
  const { success, count } = form.response;
  const isSuccess =
    success === undefined || valuesAt(body, success.path).some((value) => String(value) === success.equals);
  // Of a request that failed, results do not acknowledge those that they leave out.
  const isTaken = accepted && (isSuccess || status >= 400);
  const named = status === 429 ? undefined : namedResults(body, { accepted: isTaken, again }, response, sent);
  if (named !== undefined) return { type: 'results', results: named };
  if (again) {
    const isForAll = status === 429 || status === 503 || askedWaitMs(response) !== undefined;
    const reason = `${sent.host} answered ${said(status)}`;
    return { type: 'again', reason, afterMs: askedWaitMs(response), isForAll };
  }
  if (accepted && isSuccess && isByOrder(form.response.results))
    throw new ResultsMisfit('the answer has no list of results');
  if (isTaken) {
    if (form.isOwn) return { type: 'results', results: ownFormatResults(body, sent) };
    const notTaken = count === undefined ? 0 : Number(valuesAt(body, count)[0]);
    return {
      type: 'results',
      results: names.map(() => ({ type: 'acknowledged' })),
      notTaken: notTaken > 0 ? notTaken : undefined,
    };
  }
  const reason = `the receiver answered ${said(status)}${names.length === 1 ? reasonIn(body, response, sent) : ''}`;
  return { type: 'refused', reason, mayPassLast: status === 409 };
}

function isByOrder(results: ResponseRules['results']): boolean {
  return results !== undefined && results.index === undefined && results.key === undefined;
}

/** Whether the body of a 2xx may refuse records. */
function isRead({ isOwn, response: { results, success, count } }: Form): boolean {
  return isOwn || [results, success, count].some((rule) => rule !== undefined);
}

/**
 * The verdict of a response on each record; undefined if it names none. Of one that refuses the request, results that are about something
 * else do not count.
 * @throws {ResultsMisfit}
 */
function namedResults(
  body: unknown,
  { accepted, again }: { readonly accepted: boolean; readonly again: boolean },
  response: HttpResponse,
  sent: Sent,
): (RecordResult | undefined)[] | undefined {
  const rules = sent.form.response.results;
  if (rules === undefined || body === undefined) return undefined;
  // A list of causes looks like one of results.
  if (again && isByOrder(rules) && rules.status === undefined) return undefined;
  const unnamed: RecordResult | undefined = accepted
    ? { type: 'acknowledged' }
    : again
      ? { type: 'again', reason: `${sent.host} answered ${said(response.status)}` }
      : undefined;
  try {
    const entries = entriesIn(body, rules, sent.names);
    if (entries === undefined || entries.length === 0) return undefined;
    const results = sent.names.map((): RecordResult | undefined => unnamed);
    for (const { index, value } of entries) {
      const result = entryResult(value, sent, response);
      // What one entry refuses, another does not acknowledge.
      if (results[index]?.type !== 'refused') results[index] = result;
    }
    return results;
  } catch (error) {
    if (accepted || !(error instanceof ResultsMisfit)) throw error;
    return undefined;
  }
}

import { STATUS_CODES } from 'node:http';
import {
  type CdsyncError,
  type HttpResponse,
  loadRefused,
  loginRefused,
  type OutgoingRecord,
  permissionMissing,
  printable,
  type RecordResult,
  redactor,
  retryAfterMs,
  Secret,
} from '../../src/sdk/index.js';
import { type ReceiverResult, responseSchema } from './types.js';

/** The outcome of a request for its records. */
export type Verdict =
  | { readonly type: 'results'; readonly results: readonly RecordResult[] }
  /** The receiver refuses at least one of the records. */
  | { readonly type: 'refused'; readonly reason: string }
  | { readonly type: 'again'; readonly reason: string; readonly afterMs?: number | undefined };

/** Hints for statuses that mean a wrong endpoint, whatever the records are. */
const endpointHints: Readonly<Record<number, string>> = {
  404: 'is the path of `url` right?',
  405: 'the receiver does not accept POST there: is `url` right?',
  410: 'the receiver is no longer there: remove the destination, or give it another `url`',
  411: 'something between cdsync and the receiver drops the length of requests',
  415: 'the receiver does not accept JSON there: is `url` right?',
};

function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** All texts and numbers in a JSON text, except the names of members. */
function valuesIn(json: string): Secret[] {
  const found: Secret[] = (json.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/-?\d[\d.eE+-]*/g) ?? []).map(
    (digits) => new Secret(digits),
  );
  const take = (value: unknown): void => {
    if (typeof value === 'string') found.push(new Secret(value));
    else if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) take(member);
  };
  take(JSON.parse(json));
  return found;
}

/** The receiver's message, without the values of the record. */
function cleaned(words: string, { json, key }: OutgoingRecord): string {
  return printable(redactor([...valuesIn(json), new Secret(key)])(words));
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** The receiver's reason, if the response has one in a usual place. */
function reasonIn({ body, headers }: HttpResponse): string | undefined {
  const json = parsed(body);
  if (typeof json === 'object' && json !== null) {
    const { message, detail, error, title } = json as Readonly<Record<string, unknown>>;
    return [message, detail, error, title].find((words) => typeof words === 'string' && words !== '') as
      | string
      | undefined;
  }
  const isText = String(headers['content-type'] ?? '').startsWith('text/plain');
  return isText && body.trim() !== '' ? body : undefined;
}

function said(response: HttpResponse): string {
  return `${response.status} ${STATUS_CODES[response.status] ?? ''}`.trim();
}

function endpointError(response: HttpResponse, host: string): CdsyncError | undefined {
  const { status } = response;
  const message = `${host} answered ${said(response)}`;
  if (status === 401) return loginRefused(message, { hint: 'check what `headers` or `url` give as credentials' });
  if (status === 403)
    return permissionMissing(message, {
      hint: 'the receiver has to allow these credentials, or this machine, to post',
    });
  if (status === 407) return loginRefused(message, { hint: 'a proxy in between wants credentials' });
  if (status < 200 || (status >= 300 && status < 400))
    return loadRefused(`${message}, and redirects are not followed`, { hint: 'give `url` the final address' });
  const isEndless = status === 501 || status === 505;
  const hint = endpointHints[status] ?? (isEndless ? 'is `url` right?' : undefined);
  return hint === undefined ? undefined : loadRefused(message, { hint });
}

function recordResult(record: OutgoingRecord, found: ReceiverResult | undefined): RecordResult {
  if (found === undefined || found.status === 'acknowledged') return { type: 'acknowledged' };
  const reason = cleaned(found.reason ?? '', record) || 'the receiver gives no reason';
  if (found.status === 'again') return { type: 'again', reason, afterMs: found.retry_after_ms ?? undefined };
  return { type: 'refused', reason, column: found.column ?? undefined };
}

function results(response: HttpResponse, records: readonly OutgoingRecord[], host: string): RecordResult[] {
  const body = parsed(response.body);
  const hasResults = typeof body === 'object' && body !== null && 'results' in body;
  if (!hasResults) return records.map(() => ({ type: 'acknowledged' }));
  const read = responseSchema.safeParse(body);
  if (!read.success) {
    const [issue] = read.error.issues;
    // Taken for a success, it could lose refused records.
    const fault = `${issue?.path.join('.')}: ${issue?.message}`;
    const hint = 'each result has an `id` and a `status` of acknowledged, refused or again';
    throw loadRefused(`${host} answered with results that cannot be read: ${fault}`, { hint });
  }
  const byId = new Map(read.data.results.map((each) => [each.id, each]));
  return records.map((record) => recordResult(record, byId.get(record.id)));
}

/**
 * The verdict of a response about the records of its request.
 * @param host for messages
 * @throws {CdsyncError} for a failure that neither other records nor another attempt would repair
 */
export function verdictOf(response: HttpResponse, records: readonly OutgoingRecord[], host: string): Verdict {
  const { status } = response;
  if (isPassing(status))
    return {
      type: 'again',
      reason: `${host} answered ${said(response)}`,
      afterMs: retryAfterMs(response.headers, Date.now()),
    };
  const broken = endpointError(response, host);
  if (broken !== undefined) throw broken;
  if (status < 300) return { type: 'results', results: results(response, records, host) };
  const [record] = records;
  const words = records.length === 1 && record !== undefined ? reasonIn(response) : undefined;
  const reason = words === undefined ? '' : `: ${cleaned(words, record as OutgoingRecord)}`;
  return { type: 'refused', reason: `the receiver answered ${said(response)}${reason}` };
}

import { STATUS_CODES } from 'node:http';
import {
  type CdsyncError,
  loadRefused,
  loginRefused,
  type OutgoingRecord,
  permissionMissing,
  printable,
  type RecordResult,
  redactor,
  Secret,
} from '../../src/sdk/index.js';
import type { Answer } from './exchange.js';
import { answerSchema, type ReceiverResult } from './types.js';

/** What an answer means for the records of its request. */
export type Verdict =
  | { readonly type: 'results'; readonly results: readonly RecordResult[] }
  /** At least one of the records is not wanted. */
  | { readonly type: 'refused'; readonly reason: string }
  | { readonly type: 'again'; readonly reason: string; readonly afterMs?: number | undefined };

/** The endpoint itself is wrong, whatever the records are. */
const endpointHints: Readonly<Record<number, string>> = {
  404: 'is the path of `url` right?',
  405: 'the receiver takes no POST there: is `url` right?',
  410: 'the receiver is no longer there: take the destination out, or give it another `url`',
  411: 'something between cdsync and the receiver drops the length of requests',
  415: 'the receiver takes no JSON there: is `url` right?',
};

function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** Milliseconds that `Retry-After` asks for, from seconds or a date, which is taken against the answer's own `Date`. */
function retryAfterMs({ headers }: Answer): number | undefined {
  const asked = headers['retry-after'];
  if (typeof asked !== 'string') return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(asked)) return Number(asked) * 1000;
  const until = /^\s*[a-z]{3}/i.test(asked) ? Date.parse(asked) : Number.NaN;
  const now = typeof headers.date === 'string' ? Date.parse(headers.date) : Date.now();
  return Number.isNaN(until) || Number.isNaN(now) ? undefined : Math.max(0, until - now);
}

/** All texts and numbers in a JSON text, but for the names of members. */
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

/** The receiver's words, without what the record holds. */
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

/** What a receiver gives as its reason, where it does so in one of the usual ways. */
function reasonIn({ body, headers }: Answer): string | undefined {
  const answer = parsed(body);
  if (typeof answer === 'object' && answer !== null) {
    const { message, detail, error, title } = answer as Readonly<Record<string, unknown>>;
    return [message, detail, error, title].find((words) => typeof words === 'string' && words !== '') as
      | string
      | undefined;
  }
  const isText = String(headers['content-type'] ?? '').startsWith('text/plain');
  return isText && body.trim() !== '' ? body : undefined;
}

function said(answer: Answer): string {
  return `${answer.status} ${STATUS_CODES[answer.status] ?? ''}`.trim();
}

function endpointError(answer: Answer, host: string): CdsyncError | undefined {
  const { status } = answer;
  const message = `${host} answered ${said(answer)}`;
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

function results(answer: Answer, records: readonly OutgoingRecord[], host: string): RecordResult[] {
  const body = parsed(answer.body);
  const hasResults = typeof body === 'object' && body !== null && 'results' in body;
  if (!hasResults) return records.map(() => ({ type: 'acknowledged' }));
  const read = answerSchema.safeParse(body);
  if (!read.success) {
    const [issue] = read.error.issues;
    // Taking it for a success could lose what was refused.
    throw loadRefused(
      `${host} answered with results that cannot be read: ${issue?.path.join('.')}: ${issue?.message}`,
      {
        hint: 'each result has an `id` and a `status` of acknowledged, refused or again',
      },
    );
  }
  const byId = new Map(read.data.results.map((each) => [each.id, each]));
  return records.map((record) => recordResult(record, byId.get(record.id)));
}

/**
 * What an answer means.
 * @param host for messages
 * @throws {CdsyncError} what sending other records, or the same again, would not mend
 */
export function judge(answer: Answer, records: readonly OutgoingRecord[], host: string): Verdict {
  const { status } = answer;
  if (isPassing(status))
    return { type: 'again', reason: `${host} answered ${said(answer)}`, afterMs: retryAfterMs(answer) };
  const broken = endpointError(answer, host);
  if (broken !== undefined) throw broken;
  if (status < 300) return { type: 'results', results: results(answer, records, host) };
  const [record] = records;
  const words = records.length === 1 && record !== undefined ? reasonIn(answer) : undefined;
  const reason = words === undefined ? '' : `: ${cleaned(words, record as OutgoingRecord)}`;
  return { type: 'refused', reason: `the receiver answered ${said(answer)}${reason}` };
}

import { isUtf8 } from 'node:buffer';
import type { Clock } from '../core/clock.js';
import { retryAfterMs } from '../core/retry-after.js';
import { redactor, Secret } from '../core/secret.js';
import type { ApiGroup, AuthOptions } from '../core/service-options.js';
import type { Operation } from './request.js';
import type { ServiceResponse } from './response-reader.js';
import { AttemptFailure, type RetryWhen, type ServiceState } from './retry.js';
import { isRetryableStatus, MalformedBodyError, redirectError, ServiceError, statusError } from './service-error.js';
import type { TokenSource } from './token-source.js';

const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const brace = { open: 0x7b, close: 0x7d };

function isBlank(byte: number | undefined): boolean {
  return byte === space || byte === lineFeed || byte === carriageReturn || byte === tab;
}

/**
 * Checks both ends of a body: every response of the service is one JSON object. This costs almost nothing, and catches web
 * pages of proxies and bodies that were cut off without a stated length; the decoder checks the rest.
 * @throws {MalformedBodyError}
 */
export function requireJsonObject(body: Buffer): void {
  let start = 0;
  while (isBlank(body[start])) start += 1;
  if (start === body.length) throw new MalformedBodyError('it is empty');
  let end = body.length - 1;
  while (isBlank(body[end])) end -= 1;
  if (body[start] !== brace.open) throw new MalformedBodyError('it is not a JSON object');
  if (body[end] !== brace.close) throw new MalformedBodyError('it is cut off');
}

/**
 * JSON is UTF-8 (RFC 8259, section 8.1). Servers may state another charset, and yet send UTF-8; but texts in that charset would be
 * read with replacement characters.
 * @throws {MalformedBodyError}
 */
export function requireUtf8(body: Buffer, contentType: string | string[] | undefined): void {
  const [, charset = ''] = /;\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(String(contentType ?? '')) ?? [];
  const isWide = (body[0] === 0xff && body[1] === 0xfe) || body[0] === 0 || (body[0] !== undefined && body[1] === 0);
  if (isWide) throw new MalformedBodyError('it is not UTF-8, but has two bytes or more for each character');
  if (charset === '' || /^(utf-?8|us-ascii)$/i.test(charset) || isUtf8(body)) return;
  throw new MalformedBodyError(`it is not UTF-8, but ${charset.toLowerCase()}`);
}

/** Whether a body looks like a web page: a proxy's, or a login form. */
function looksLikeHtml(body: Buffer, contentType: string | string[] | undefined): boolean {
  if (typeof contentType === 'string' && /\bx?html\b/i.test(contentType)) return true;
  return /^\s*<(!doctype|html|head|body)\b/i.test(body.toString('latin1', 0, 200));
}

/** The values of a request that may be about a person, and that a service may repeat in its messages. */
function* personalValues({ group, path, query, body, json }: Operation): Generator<string> {
  // A key of a lookup may have any name, also that of another operation's parameter.
  const isLookup = group === 'realtime' && path.startsWith('/lookup/');
  for (const [name, value] of query ?? []) {
    const isKey = isLookup ? name !== '_enrich' : group === 'realtime' && !technical.has(name);
    if (name.startsWith('filter[') || isKey) yield value;
  }
  if (group === 'realtime') yield* texts(json === undefined ? body : JSON.parse(json));
}

const technical = new Set(['limit', 'next_token', 'with_total', 'enrich', 'scale', 'after', 'before']);

/** All strings in a JSON value, except the names of members. */
function* texts(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) yield* texts(member);
}

/** A pattern for a text as a whole word. */
function asWord(text: string): RegExp {
  const literal = text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  return new RegExp(`(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])`, 'gu');
}

/** Checks responses that cannot be used: which error each becomes, and whether the request may be sent again. */
export class ResponseCheck {
  readonly #auth: AuthOptions['type'];
  readonly #tokens: TokenSource;
  readonly #clock: Clock;
  /** Whether any response was ever usable. Before that, a web page (of a proxy) is not asked for again and again. */
  #understood = false;

  constructor(auth: AuthOptions['type'], tokens: TokenSource, clock: Clock) {
    this.#auth = auth;
    this.#tokens = tokens;
    this.#clock = clock;
  }

  /** Call it after each decoded response. */
  understood(): void {
    this.#understood = true;
  }

  /** The failure for a response whose status is not a success. */
  refusal(operation: Operation, response: ServiceResponse, idempotent: boolean): AttemptFailure {
    const { status, headers } = response;
    const { label, permissions, permissionInstead, group } = operation;
    const about = { shows: shownBy(status), reason: String(status) };
    if (status >= 300 && status < 400)
      return new AttemptFailure(() => redirectError(response, label), { again: 'never', ...about });
    const toError = (attempts: number) => {
      const redact = this.#redactor(operation);
      return statusError(response, {
        label,
        group,
        attempts,
        permissions,
        permissionInstead,
        redact,
        auth: this.#auth,
      });
    };
    const waitMs = retryAfterMs(headers, this.#clock.now());
    return new AttemptFailure(toError, { again: againAfter(status, idempotent, group), waitMs, ...about });
  }

  /** The failure for a success whose body is not of the operation's shape. */
  malformed(
    operation: Operation,
    { body, headers, status }: ServiceResponse,
    cause: Error,
    idempotent: boolean,
  ): AttemptFailure {
    const html = looksLikeHtml(body.bytes, headers['content-type']);
    const reason = html ? 'it is a web page' : cause instanceof SyntaxError ? 'it is not JSON' : cause.message;
    const toError = (attempts: number) => {
      const tries = attempts > 1 ? `, tried ${attempts} times` : '';
      return new ServiceError(`${operation.label} got an answer that cannot be read (${status})${tries}: ${reason}`, {
        code: 'malformed_response',
        status,
        hint: html
          ? 'this looks like a proxy or a login page: is `base_url` the address of the API itself?'
          : 'if it happens again, something between cdsync and the service may cut or change its answers',
      });
    };
    return new AttemptFailure(toError, {
      again: idempotent ? 'later' : 'never',
      shows: 'away',
      reason,
      isUnconnected: html && !this.#understood,
      isUnreadable: true,
    });
  }

  #redactor(operation: Operation): (text: string) => string {
    const personal = [...personalValues(operation)];
    const redact = redactor([...this.#tokens.secrets(), ...personal.map((value) => new Secret(value))]);
    // The redactor leaves out values that are so short that they would match by chance.
    const short = personal.filter((value) => value.trim() !== '' && value.length < 4).map(asWord);
    return (text) => short.reduce((rest, word) => rest.replace(word, '[secret]'), redact(text));
  }
}

/** A 401 is about the token, and a 429 about the budget: neither shows that the service can work. */
export function shownBy(status: number): ServiceState {
  if (status === 401 || status === 429) return 'nothing';
  return isRetryableStatus(status) ? 'away' : 'alive';
}

function againAfter(status: number, idempotent: boolean, group: ApiGroup): RetryWhen {
  if (status === 429) return 'when_allowed';
  // A 503 means that the service did not take the event (published notes, Real-time API), so it may be sent again. For the
  // start of a workflow no such note is published.
  if (isRetryableStatus(status) && (idempotent || (status === 503 && group === 'realtime'))) return 'later';
  return 'never';
}

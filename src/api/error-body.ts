import { printable } from '../core/printable.js';
import type { ServiceResponse } from './response-reader.js';

/** A larger error body does not come from the service, but for example from a proxy. */
const maxErrorBodyBytes = 64 * 1024;
/** Of a body without a form: more than that is no message. */
const maxPlainLength = 500;

/** The parts of a response about an error. */
interface ServiceSaid {
  readonly message?: string | undefined;
  readonly requestId?: string | undefined;
  readonly traceId?: string | undefined;
}

type Members = Readonly<Record<string, unknown>>;

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined;
}

/** Members that other services and gateways have in place of `message`. */
const otherNames = [
  'detail',
  'title',
  'error_message',
  'errorMessage',
  'Message',
  'msg',
  'reason',
  'description',
  'text',
  'faultstring',
];
const holders = ['error', 'message', 'errors', 'messages', 'fault'];

/**
 * The words of an error body: `message` (specification, section 2.6), those of OAuth (RFC 6749, section 5.2), of
 * `application/problem+json` (RFC 9457), of a nested `error`, or of the first of a list.
 */
function wordsIn(value: unknown, depth = 0): string | undefined {
  if (depth > 3) return undefined;
  if (Array.isArray(value)) return textOf(value[0]) ?? wordsIn(value[0], depth + 1);
  const body = membersOf(value);
  const oauth = [body.error, body.error_description].map(textOf).filter((text) => text !== undefined);
  const texts = [body.message, oauth.join(': '), ...otherNames.map((name) => body[name])];
  for (const text of texts) if (textOf(text) !== undefined) return textOf(text);
  for (const name of holders) {
    const words = wordsIn(body[name], depth + 1);
    if (words !== undefined) return words;
  }
  return undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Text that is no web page and no JSON. */
function plainWords(text: string, contentType: string | string[] | undefined): string | undefined {
  const isPlain = !/html|json|xml/i.test(String(contentType ?? '')) && !/^\s*[<{[]/.test(text);
  return isPlain && text.length <= maxPlainLength ? textOf(text) : undefined;
}

/** @param redact takes secrets and personal values out */
export function readErrorBody(
  { headers, body: { bytes } }: ServiceResponse,
  redact: (text: string) => string,
): ServiceSaid {
  if (bytes.length > maxErrorBodyBytes) return {};
  const text = bytes.toString('utf8');
  const value = parsed(text);
  const body = membersOf(value);
  const inner = membersOf(body.error);
  const clean = (said: string | undefined) => (said === undefined ? undefined : printable(redact(said)) || undefined);
  return {
    message: clean(wordsIn(value) ?? textOf(value) ?? plainWords(text, headers['content-type'])),
    requestId: clean(textOf(body.request_id) ?? textOf(inner.request_id)),
    traceId: clean(textOf(body.trace_id) ?? textOf(inner.trace_id)),
  };
}

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

/**
 * The words of an error body: `message` (specification, section 2.6), those of OAuth (RFC 6749, section 5.2), of
 * `application/problem+json` (RFC 9457), of a nested `error`, or of the first of `errors`.
 */
function wordsIn(body: Members, depth = 0): string | undefined {
  const { message, error, error_description: description, detail, title, errors } = body;
  const oauth = [textOf(error), textOf(description)].filter((text) => text !== undefined).join(': ');
  const own = textOf(message) ?? (textOf(oauth) || textOf(detail) || textOf(title));
  if (own !== undefined || depth > 1) return own;
  const [first] = Array.isArray(errors) ? errors : [];
  return wordsIn(membersOf(error), depth + 1) ?? textOf(first) ?? wordsIn(membersOf(first), depth + 1);
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
    message: clean(wordsIn(body) ?? textOf(value) ?? plainWords(text, headers['content-type'])),
    requestId: clean(textOf(body.request_id) ?? textOf(inner.request_id)),
    traceId: clean(textOf(body.trace_id) ?? textOf(inner.trace_id)),
  };
}

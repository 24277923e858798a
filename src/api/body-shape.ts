import { MalformedBodyError } from './service-error.js';

const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const brace = { open: 0x7b, close: 0x7d };

function isBlank(byte: number | undefined): boolean {
  return byte === space || byte === lineFeed || byte === carriageReturn || byte === tab;
}

/**
 * Checks both ends of a body: every answer of the service is one JSON object. This costs almost nothing, and catches web
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

/** Whether a body looks like a web page: a proxy's, or a login form. */
export function looksLikeHtml(body: Buffer, contentType: string | string[] | undefined): boolean {
  if (typeof contentType === 'string' && /\bx?html\b/i.test(contentType)) return true;
  return /^\s*<(!doctype|html|head|body)\b/i.test(body.toString('latin1', 0, 200));
}

import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { type Fault, faultOf } from '../faults/fault.js';
import { badRequest, ServiceError } from './response.js';

/** The type alone, without parameters such as `charset`. */
export function contentType({ headers }: IncomingMessage): string | undefined {
  return headers['content-type']?.split(';')[0]?.trim().toLowerCase();
}

/** Deeper values can be parsed, but not written again: that is recursive. */
const maxDepth = 100;

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return depth === 0 || Object.values(value).some((member) => isDeeper(member, depth - 1));
}

/**
 * The body of a request as a JSON object.
 * @param faults of the request: one of them allows compressed bodies
 * @throws {ServiceError} 400, 413, 415
 */
export async function jsonObject(
  request: IncomingMessage,
  maxBytes: number,
  faults: readonly Fault[],
): Promise<Record<string, unknown>> {
  const text = await requestBody(request, maxBytes, { readsGzip: faultOf(faults, 'gzip_requests') !== undefined });
  if (text.trim() === '') throw badRequest('the body is missing');
  if (contentType(request) !== 'application/json') throw badRequest('the body must be application/json');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest('the body is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badRequest('the body is not a JSON object');
  if (isDeeper(value, maxDepth)) throw badRequest(`the body has more than ${maxDepth} levels`);
  return value as Record<string, unknown>;
}

/** A compressed body as it was before. @throws {ServiceError} 400, 413 */
function inflated(body: Buffer, maxBytes: number): Buffer {
  try {
    return gunzipSync(body, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLong(maxBytes);
    throw badRequest('the body is not compressed with gzip');
  }
}

function tooLong(maxBytes: number): ServiceError {
  return new ServiceError(413, `the body is longer than ${maxBytes} bytes`);
}

/** The whole body of a request. @throws {ServiceError} 400 if it is not UTF-8, 413, 415 if it is compressed */
export async function requestBody(
  request: IncomingMessage,
  maxBytes: number,
  { readsGzip = false }: { readonly readsGzip?: boolean } = {},
): Promise<string> {
  const coding = request.headers['content-encoding'] ?? 'identity';
  const isGzip = readsGzip && coding === 'gzip';
  if (!isGzip && coding !== 'identity') {
    request.resume();
    throw new ServiceError(415, `a body with the coding ${JSON.stringify(coding)} is not read`);
  }
  const chunks: Buffer[] = [];
  let length = 0;
  // The response still needs the connection, so leaving the loop must not destroy it.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) break;
    chunks.push(chunk);
  }
  if (length > maxBytes) {
    // Unread bytes would be taken for the start of the next request on this connection.
    request.resume();
    throw tooLong(maxBytes);
  }
  const body = isGzip ? inflated(Buffer.concat(chunks), maxBytes) : Buffer.concat(chunks);
  if (!isUtf8(body)) throw badRequest('the body is not UTF-8');
  return body.toString('utf8');
}

import type { IncomingMessage } from 'node:http';
import { badRequest, ServiceError } from './response.js';

/** The body of a request as a JSON object. @throws {ServiceError} 400, 413, 415 */
export async function jsonObject(request: IncomingMessage, maxBytes: number): Promise<Record<string, unknown>> {
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  const text = await requestBody(request, maxBytes);
  if (text === '') throw badRequest('the body is missing');
  if (type !== 'application/json') throw new ServiceError(415, 'the body must be application/json');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest('the body is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badRequest('the body is not a JSON object');
  return value as Record<string, unknown>;
}

/** The whole body of a request. @throws {ServiceError} 413 */
export async function requestBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  // The answer still needs the connection, so leaving the loop must not destroy it.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) break;
    chunks.push(chunk);
  }
  if (length > maxBytes) {
    // Bytes left unread would come before the next request on this connection.
    request.resume();
    throw new ServiceError(413, `the body is longer than ${maxBytes} bytes`);
  }
  return Buffer.concat(chunks).toString('utf8');
}

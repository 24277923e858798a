import type { IncomingMessage } from 'node:http';
import { ServiceError } from './service-error.js';

/** The whole body of a request. @throws {ServiceError} 413 */
export async function requestBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  // Giving up must not take the connection with it, which the answer still needs.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) break;
    chunks.push(chunk);
  }
  if (length > maxBytes) {
    // Whatever stayed unread would stand before the next request.
    request.resume();
    throw new ServiceError(413, `the body is longer than ${maxBytes} bytes`);
  }
  return Buffer.concat(chunks).toString('utf8');
}

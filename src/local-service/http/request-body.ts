import type { IncomingMessage } from 'node:http';
import { ServiceError } from './service-error.js';

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

import type { IncomingMessage } from 'node:http';
import { requestBody } from './request-body.js';
import { badRequest, ServiceError } from './service-error.js';

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

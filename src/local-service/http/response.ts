import type { ServerResponse } from 'node:http';

/** A response that is ready to be sent. */
export interface ServiceResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Call it when the operating system has taken the body. */
  readonly release?: (() => void) | undefined;
}

const noHeaders = {};
const empty = Buffer.alloc(0);

/** A response with a JSON body. */
export function jsonResponse(value: unknown, status = 200): ServiceResponse {
  return { status, headers: noHeaders, body: Buffer.from(JSON.stringify(value)) };
}

/** Status 204, without a body. */
export const noContent: ServiceResponse = { status: 204, headers: noHeaders, body: empty };

/** The headers of a response, in the form that is fastest for node:http. */
export function headOf({ status, headers, body }: ServiceResponse, date: string): string[] {
  const head = ['Date', date];
  // A 204 must not have it (RFC 9110, section 8.6).
  if (status !== 204) head.push('Content-Length', String(body.length));
  if (body.length > 0 && headers['content-type'] === undefined) head.push('Content-Type', 'application/json');
  for (const name in headers) head.push(name, headers[name] as string);
  return head;
}

/** Sends a response, then releases its buffer. */
export function send(serverResponse: ServerResponse, response: ServiceResponse, date: string): void {
  serverResponse.writeHead(response.status, headOf(response, date));
  serverResponse.end(response.body, response.release);
}

/** An error response (specification, sections 2.6 and 7). Any code may throw it; one place turns it into a body. */
export class ServiceError extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = 'ServiceError';
    this.status = status;
    this.headers = headers;
  }
}

/** Status 400. */
export const badRequest = (message: string) => new ServiceError(400, message);
/** Status 404. */
export const notFound = (message = 'the requested entity does not exist') => new ServiceError(404, message);
/** Status 401. */
export const unauthorized = (message: string) => new ServiceError(401, message, { 'www-authenticate': 'Bearer' });

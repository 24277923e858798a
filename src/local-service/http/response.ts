import type { ServerResponse } from 'node:http';

/** A response that is ready to be sent. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Call it when the operating system has taken the body. */
  readonly release?: (() => void) | undefined;
}

const noHeaders = {};
const empty = Buffer.alloc(0);

export function jsonAnswer(value: unknown, status = 200): Answer {
  return { status, headers: noHeaders, body: Buffer.from(JSON.stringify(value)) };
}

/** Status 204, without a body. */
export const doneAnswer: Answer = { status: 204, headers: noHeaders, body: empty };

/** The headers of an answer, in the form that node:http takes fastest. */
export function headOf({ status, headers, body }: Answer, date: string): string[] {
  const head = ['Date', date];
  // A 204 must not have it (RFC 9110, section 8.6).
  if (status !== 204) head.push('Content-Length', String(body.length));
  if (body.length > 0 && headers['content-type'] === undefined) head.push('Content-Type', 'application/json');
  for (const name in headers) head.push(name, headers[name] as string);
  return head;
}

/** Sends an answer, then releases its buffer. */
export function send(response: ServerResponse, answer: Answer, date: string): void {
  response.writeHead(answer.status, headOf(answer, date));
  response.end(answer.body, answer.release);
}

/** An error answer (specification, sections 2.6 and 7). Any code may throw it; one place turns it into a body. */
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

export const badRequest = (message: string) => new ServiceError(400, message);
export const notFound = (message = 'the requested entity does not exist') => new ServiceError(404, message);
export const unauthorized = (message: string) => new ServiceError(401, message, { 'www-authenticate': 'Bearer' });

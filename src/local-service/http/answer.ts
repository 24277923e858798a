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
export function headOf({ headers, body }: Answer, date: string): string[] {
  const head = ['Date', date, 'Content-Length', String(body.length)];
  if (body.length > 0 && headers['content-type'] === undefined) head.push('Content-Type', 'application/json');
  for (const name in headers) head.push(name, headers[name] as string);
  return head;
}

/** Sends an answer, then releases its buffer. */
export function send(response: ServerResponse, answer: Answer, date: string): void {
  response.writeHead(answer.status, headOf(answer, date));
  response.end(answer.body, answer.release);
}

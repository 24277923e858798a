import type { ServerResponse } from 'node:http';
import type { Answer } from './answer.js';

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

import type { RawAnswer } from './answer-collector.js';
import { ExchangeFailure } from './exchange-failure.js';
import { inflated } from './inflated.js';

const byteOrderMark = Buffer.from('\ufeff');

/** The codings of a body, the one applied last first. Names have no case, and may come in lists and several headers. */
function codings(header: string | string[] | undefined): string[] {
  const names = (Array.isArray(header) ? header.join(',') : (header ?? '')).toLowerCase().split(',');
  return names
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
    .reverse();
}

/**
 * The body of an answer as the service meant it: decompressed, without a byte order mark at its head.
 * @throws {ExchangeFailure} `torn`, `too_large`
 * @throws {CdsyncError} `interrupted` as soon as the signal aborts while it waits for room
 */
export async function bodyText({ headers, body: received, place }: RawAnswer, signal: AbortSignal): Promise<Buffer> {
  let body = received;
  for (const coding of body.length === 0 ? [] : codings(headers['content-encoding'])) {
    if (coding !== 'gzip' && coding !== 'x-gzip') {
      throw new ExchangeFailure('torn', new Error('the body is compressed in a way that was not asked for'));
    }
    body = await inflated(body, place, signal);
  }
  return body.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? body.subarray(byteOrderMark.length) : body;
}

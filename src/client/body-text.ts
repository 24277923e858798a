import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { Answer } from './answer-collector.js';
import { ExchangeFailure } from './exchange-failure.js';

const inflate = promisify(gunzip);
const byteOrderMark = Buffer.from('\ufeff');

async function inflated(body: Buffer, maxBytes: number): Promise<Buffer> {
  try {
    return await inflate(body, { maxOutputLength: maxBytes });
  } catch (error) {
    const tooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw new ExchangeFailure(tooLarge ? 'too_large' : 'torn', error);
  }
}

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
 * @param maxBytes the largest body after decompression
 * @throws {ExchangeFailure} `torn`, `too_large`
 */
export async function bodyText({ headers, body: received }: Answer, maxBytes: number): Promise<Buffer> {
  let body = received;
  for (const coding of body.length === 0 ? [] : codings(headers['content-encoding'])) {
    if (coding !== 'gzip' && coding !== 'x-gzip') {
      throw new ExchangeFailure('torn', new Error('the body is compressed in a way that was not asked for'));
    }
    body = await inflated(body, maxBytes);
  }
  return body.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? body.subarray(byteOrderMark.length) : body;
}

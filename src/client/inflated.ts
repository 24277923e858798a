import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { BodyPlace } from './body-room.js';
import { ExchangeFailure } from './exchange-failure.js';

const inflate = promisify(gunzip);
/** Zlib needs at least this much in one go. */
const leastChunk = 64 * 1024;

/**
 * Inflates a gzip body in its place. Room is taken first: for the size that the end of the body states (RFC 1952, section
 * 2.3.1), or, where that is not true, for the largest body there may be. So a bomb never takes more than the room.
 * @throws {ExchangeFailure} `too_large`, `torn`
 * @throws {CdsyncError} `interrupted` while it waits for room
 */
export async function inflated(body: Buffer, place: BodyPlace, signal: AbortSignal): Promise<Buffer> {
  const most = place.most - body.length;
  const stated = Math.max(1, body.length < 4 ? 0 : body.readUInt32LE(body.length - 4));
  if (stated < most) {
    await place.reserve(body.length + stated, signal);
    const whole = await inflatedWithin(body, stated, stated + 1);
    if (whole !== undefined) return whole;
  }
  await place.reserve(place.most, signal);
  const whole = await inflatedWithin(body, most, leastChunk);
  if (whole === undefined) throw new ExchangeFailure('too_large', undefined, place.most);
  return whole;
}

/** Undefined if the body has more than `most` bytes. */
async function inflatedWithin(body: Buffer, most: number, chunk: number): Promise<Buffer | undefined> {
  try {
    return await inflate(body, { maxOutputLength: most, chunkSize: Math.max(leastChunk, chunk) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw new ExchangeFailure('torn', error);
  }
}

import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { constants, crc32, deflateRaw } from 'node:zlib';

const deflated = promisify(deflateRaw);
/** Of text, compressed by one thread at a time. */
const pieceBytes = 1 << 20;
/** How far back deflate looks. */
const windowBytes = 1 << 15;
const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);

/** The same bytes in pieces of one size, only the last of them smaller; none if there are no bytes. */
async function* pieces(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (let chunk of source) {
    while (bytes + chunk.length >= pieceBytes) {
      const rest = pieceBytes - bytes;
      yield Buffer.concat([...parts, chunk.subarray(0, rest)], pieceBytes);
      chunk = chunk.subarray(rest);
      [parts, bytes] = [[], 0];
    }
    // The source may use the memory of a chunk again.
    if (chunk.length > 0) parts.push(Buffer.from(chunk));
    bytes += chunk.length;
  }
  // The sum of no bytes would be that of a new stream.
  if (bytes > 0) yield Buffer.concat(parts);
}

/**
 * Gzip by several threads: each piece is compressed alone, looking back into the one before it, and ends at a whole byte. The result is
 * one stream of one member, as every reader takes it.
 */
export async function* gzips(source: AsyncIterable<Buffer>, level: number): AsyncGenerator<Buffer> {
  const threads = Math.min(4, availableParallelism());
  const waiting: Promise<Buffer>[] = [];
  let [sum, bytes] = [0, 0];
  let before: Buffer | undefined;
  yield header;
  for await (const piece of pieces(source)) {
    const dictionary = before?.subarray(-windowBytes);
    const work = deflated(piece, {
      ...{ level, finishFlush: constants.Z_SYNC_FLUSH, chunkSize: pieceBytes / 2 },
      ...(dictionary === undefined ? {} : { dictionary }),
    });
    // If an earlier one fails, no one waits for it.
    work.catch(() => undefined);
    waiting.push(work);
    sum = crc32(piece, sum);
    bytes += piece.length;
    before = piece;
    if (waiting.length >= threads) yield (await waiting.shift()) as Buffer;
  }
  for (const work of waiting) yield await work;
  const end = Buffer.alloc(10);
  // An empty last block.
  end.writeUInt16LE(0x0003, 0);
  end.writeUInt32LE(sum, 2);
  end.writeUInt32LE(bytes % 2 ** 32, 6);
  yield end;
}

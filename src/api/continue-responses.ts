import type { Socket } from 'node:net';

const start = Buffer.from('HTTP/1.1 100');
const blankLine = '\r\n\r\n';
/** A head longer than this is no `100 Continue`. */
const maxHeadBytes = 16_384;

/** Position after all whole `100 Continue` at the head of an answer; undefined if more bytes must come to decide. */
function afterContinues(bytes: Buffer): number | undefined {
  let from = 0;
  for (;;) {
    const length = Math.min(start.length, bytes.length - from);
    if (bytes.compare(start, 0, length, from, from + length) !== 0) return from;
    const end = length < start.length ? -1 : bytes.indexOf(blankLine, from);
    if (end < 0) return bytes.length - from > maxHeadBytes ? from : undefined;
    from = end + blankLine.length;
  }
}

/**
 * Takes `100 Continue` away from the head of each answer on a connection. A server may send it unasked (RFC 9110, section
 * 15.2), but undici takes it for a bad answer and ends the connection. Other 1xx answers undici handles itself.
 * The connection must send one request at a time.
 */
export function stripContinueResponses(socket: Socket): Socket {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  const write = socket.write.bind(socket) as (...words: unknown[]) => boolean;
  let isHead = true;
  let held: Buffer | undefined;
  // An answer begins after what was sent; from then on, the same bytes may be part of a body.
  socket.write = ((...words: unknown[]) => {
    isHead = true;
    return write(...words);
  }) as Socket['write'];
  socket.read = (size?: number) => {
    // Node itself reads nothing in this way, to fill its buffer: what is there must stay there.
    if (size === 0) return read(0);
    for (;;) {
      const chunk = read();
      if (chunk === null || !isHead) return chunk;
      const bytes = held === undefined ? chunk : Buffer.concat([held, chunk]);
      const from = afterContinues(bytes);
      held = from === undefined ? bytes : undefined;
      if (from === undefined || from === bytes.length) continue;
      isHead = false;
      return bytes.subarray(from);
    }
  };
  return socket;
}

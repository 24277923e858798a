import { createHash } from 'node:crypto';
import { Transform } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { type Encoding, windows1252 } from './letters.js';

const beyondLatin1 = new Map(
  [...windows1252].flatMap((letter, at) => (letter === '\0' ? [] : [[letter.charCodeAt(0), 0x80 + at]])),
);

function inWindows1252(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0xff) bytes[at] = beyondLatin1.get(code) ?? 0x3f;
  }
  return bytes;
}

/** A text in an encoding. */
export function encoded(text: string, encoding: Encoding): Buffer {
  if (encoding === 'windows-1252') return inWindows1252(text);
  return Buffer.from(text, encoding === 'utf-16le' ? 'utf16le' : encoding === 'latin1' ? 'latin1' : 'utf8');
}

/** Bytes of UTF-8 in another encoding. */
export function encodes(encoding: Encoding): Transform {
  const decoder = new StringDecoder('utf8');
  return new Transform({
    transform: (chunk: Buffer, _, done) => done(null, encoded(decoder.write(chunk), encoding)),
  });
}

/** Puts bytes before and after a stream; a part of a JSON list has commas between its lines. */
export function framed(before: Buffer, after: () => Buffer, isList: boolean): Transform {
  let isBegun = false;
  let pending = false;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      if (!isBegun) this.push(before);
      isBegun = true;
      if (!isList) return done(null, chunk);
      // The last line of a list has no comma, and which is the last shows at the end.
      const ends = chunk.at(-1) === 0x0a;
      const text = ends ? chunk.subarray(0, -1) : chunk;
      const parts: Buffer[] = pending ? [Buffer.from(',\n')] : [];
      pending = ends;
      let from = 0;
      for (let at = text.indexOf(0x0a); at >= 0; at = text.indexOf(0x0a, from)) {
        parts.push(text.subarray(from, at), Buffer.from(',\n'));
        from = at + 1;
      }
      parts.push(text.subarray(from));
      done(null, Buffer.concat(parts));
    },
    flush(done) {
      if (!isBegun) this.push(before);
      done(null, after());
    },
  });
}

/** Counts and hashes what passes. */
export class Measured extends Transform {
  bytes = 0;
  readonly #hash = createHash('sha256');

  add(chunk: Buffer): void {
    this.bytes += chunk.length;
    this.#hash.update(chunk);
  }

  override _transform(chunk: Buffer, _: string, done: (error: null, chunk: Buffer) => void): void {
    this.add(chunk);
    done(null, chunk);
  }

  /** In hex, once all has passed. */
  get sha256(): string {
    return this.#hash.copy().digest('hex');
  }
}

/**
 * The parts of a text: each as many whole records as it may have. A line end inside of quotes ends no record.
 * @param limits `more` bytes come to each record later
 */
export async function* recordParts(
  source: AsyncIterable<Buffer>,
  {
    rows = Number.POSITIVE_INFINITY,
    bytes = Number.POSITIVE_INFINITY,
    more = 0,
  }: { readonly rows?: number | undefined; readonly bytes?: number | undefined; readonly more?: number },
  hasQuotes: boolean,
): AsyncGenerator<{ readonly chunk: Buffer; readonly rows: number; readonly isLast: boolean }> {
  let [isQuoted, count, size] = [false, 0, 0];
  /** The record that is not whole yet. */
  let rest: Buffer[] = [];
  for await (const chunk of source) {
    // Records of this part that are whole, and those that go before a new part begins.
    let [from, start, ended] = [0, 0, 0];
    for (let at = 0; at < chunk.length; at += 1) {
      if (hasQuotes && chunk[at] === 0x22) isQuoted = !isQuoted;
      if (chunk[at] !== 0x0a || isQuoted) continue;
      const record = more + at + 1 - start + rest.reduce((sum, part) => sum + part.length, 0);
      if (count + ended > 0 && (count + ended >= rows || size + record > bytes)) {
        const whole = chunk.subarray(from, start);
        yield { chunk: whole, rows: ended, isLast: true };
        [from, count, size, ended] = [start, 0, 0, 0];
      }
      if (rest.length > 0) {
        // It began in an earlier chunk.
        yield { chunk: Buffer.concat([...rest, chunk.subarray(start, at + 1)]), rows: 1, isLast: false };
        [rest, from] = [[], at + 1];
        count += 1;
      } else ended += 1;
      size += record;
      start = at + 1;
    }
    if (start > from) yield { chunk: chunk.subarray(from, start), rows: ended, isLast: false };
    count += ended;
    if (start < chunk.length) rest.push(Buffer.from(chunk.subarray(start)));
  }
}

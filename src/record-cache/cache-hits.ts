import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { openFlags, writeWhole } from '../core/durable.js';

const wordBytes = Uint32Array.BYTES_PER_ELEMENT;
/** In place of a partition's number: the name of a partition follows. */
const nameMark = 0xffff_ffff;
/** Words before the slots of an entry: partition, attempt, part, rows, number of slots. */
const headWords = 5;
/** Words before the bytes of a name: mark, number, length. */
const nameWords = 3;
const chunkBytes = 1 << 20;
const chunkWords = chunkBytes / wordBytes;
/** A stream of few records needs no more: the logs of all streams are there until the commit. */
const minWords = 1 << 10;

/** Adjacent cache hits of one partition. */
export interface CacheHits {
  readonly partition: string;
  readonly attempt: number;
  /** They were read before row `row` of part `part`, and after all earlier rows. */
  readonly part: number;
  readonly row: number;
  /** Their slots in the hash table. */
  readonly slots: ArrayLike<number>;
}

/**
 * The cache hits of a reading, in their order: a file beside the journal, of 32-bit numbers, with a checksum after each entry. A line
 * of the journal has the length of the file; bytes after it do not count.
 */
export class CacheHitsLog {
  readonly #handle: FileHandle;
  readonly #partitions = new Map<string, number>();
  #words = new Uint32Array(minWords);
  #used = 0;
  /** Bytes in the file, including unfinished writes. */
  #length: number;
  #written: Promise<unknown> = Promise.resolve();
  #isSynced = true;

  private constructor(handle: FileHandle, length: number) {
    this.#handle = handle;
    this.#length = length;
  }

  /** Cuts the log to `length` bytes and opens it for appending. Names are written again. */
  static async open(path: string, length: number): Promise<CacheHitsLog> {
    const handle = await open(path, openFlags.update, 0o600);
    await handle.truncate(length);
    return new CacheHitsLog(handle, length);
  }

  /** Adds hits; they are durable after {@link sync}. */
  add({ partition, attempt, part, row, slots }: CacheHits): void {
    const number = this.#partition(partition);
    this.#append([number, attempt, part, row, slots.length], slots);
  }

  /** Makes everything added so far durable. Returns the length of the file. */
  async sync(): Promise<number> {
    this.#write();
    const length = this.#length;
    await this.#written;
    if (!this.#isSynced) await this.#handle.datasync();
    if (length === this.#length) this.#isSynced = true;
    return length;
  }

  async close(): Promise<void> {
    await this.#written.catch(() => undefined);
    this.#words = new Uint32Array(0);
    await this.#handle.close();
  }

  #partition(name: string): number {
    const index = this.#partitions.get(name);
    if (index !== undefined) return index;
    const number = this.#partitions.size;
    this.#partitions.set(name, number);
    const bytes = Buffer.from(name);
    const padded = Buffer.alloc(Math.ceil(bytes.length / wordBytes) * wordBytes);
    bytes.copy(padded);
    this.#append(
      [nameMark, number, bytes.length],
      new Uint32Array(padded.buffer, padded.byteOffset, padded.length / wordBytes),
    );
    return number;
  }

  #append(head: readonly number[], rest: ArrayLike<number>): void {
    const size = head.length + rest.length;
    this.#reserve(size + 1);
    const entry = this.#words.subarray(this.#used, this.#used + size + 1);
    entry.set(head);
    entry.set(rest, head.length);
    entry[size] = checksum(entry);
    this.#used += size + 1;
  }

  #reserve(words: number): void {
    const needed = this.#used + words;
    if (needed <= this.#words.length) return;
    if (needed > chunkWords) this.#write();
    if (this.#used + words <= this.#words.length) return;
    const larger = new Uint32Array(Math.max(words, Math.min(chunkWords, 2 * needed)));
    larger.set(this.#words.subarray(0, this.#used));
    this.#words = larger;
  }

  #write(): void {
    if (this.#used === 0) return;
    const bytes = Buffer.from(this.#words.slice(0, this.#used).buffer);
    const position = this.#length;
    this.#used = 0;
    this.#length += bytes.length;
    this.#isSynced = false;
    this.#written = this.#written.then(() => writeWhole(this.#handle, bytes, bytes.length, position));
    // The next sync awaits the write and throws its error. Until then the rejection must not count as unhandled.
    this.#written.catch(() => undefined);
  }
}

/** The checksum of an entry: of all its words but the last, which is the checksum itself. */
function checksum(entry: Uint32Array): number {
  return crc32(Buffer.from(entry.buffer, entry.byteOffset, entry.byteLength - wordBytes));
}

async function readAt(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await handle.read(bytes, done, bytes.length - done, position + done);
    if (bytesRead === 0) throw new RangeError('the log is too short');
    done += bytesRead;
  }
}

/** The hits in the first `length` bytes of a log. @throws {RangeError} if the log is damaged or not a log */
export async function* readCacheHits(path: string, length: number): AsyncGenerator<CacheHits> {
  const names = new Map<number, string>();
  for await (const words of entries(path, length)) {
    if (words[0] === nameMark) {
      const bytes = Buffer.from(words.slice(nameWords).buffer);
      names.set(words[1] as number, bytes.toString('utf8', 0, words[2]));
      continue;
    }
    const [number, attempt, part, row] = words as unknown as [number, number, number, number];
    const partition = names.get(number);
    if (partition === undefined) throw new RangeError('the log names an unknown partition');
    yield { partition, attempt, part, row, slots: words.subarray(headWords, -1) };
  }
}

/** Number of words of the entry at this position, with its checksum; undefined if its head is incomplete. */
function entryWords(words: Uint32Array, at: number): number | undefined {
  if (words[at] === nameMark) {
    const bytes = words[at + 2];
    return bytes === undefined ? undefined : nameWords + Math.ceil(bytes / wordBytes) + 1;
  }
  const slots = words[at + headWords - 1];
  return slots === undefined ? undefined : headWords + slots + 1;
}

async function* entries(path: string, length: number): AsyncGenerator<Uint32Array> {
  const handle = await open(path, 'r');
  try {
    let rest = new Uint32Array(0);
    for (let position = 0; position < length; ) {
      const chunk = Buffer.alloc(Math.min(chunkBytes, length - position));
      await readAt(handle, chunk, position);
      position += chunk.length;
      const words = new Uint32Array(rest.length + chunk.length / wordBytes);
      words.set(rest);
      words.set(new Uint32Array(chunk.buffer, chunk.byteOffset, chunk.length / wordBytes), rest.length);
      let at = 0;
      for (;;) {
        const size = entryWords(words, at);
        if (size === undefined || at + size > words.length) break;
        const entry = words.subarray(at, at + size);
        if (entry.at(-1) !== checksum(entry)) throw new RangeError('the log is damaged');
        yield entry;
        at += size;
      }
      rest = words.slice(at);
    }
    if (rest.length > 0) throw new RangeError('the log ends inside an entry');
  } finally {
    await handle.close();
  }
}

import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { openFlags, writeWhole } from '../storage/durable.js';

const wordBytes = Uint32Array.BYTES_PER_ELEMENT;
/** In place of a partition's number: what follows is the name of the next partition. */
const nameMark = 0xffff_ffff;
/** Words before the slots of a run: partition, attempt, part, rows, number of slots. */
const headWords = 5;
/** Words before the bytes of a name: mark, number, length. */
const nameWords = 3;
const chunkBytes = 1 << 20;

/** Recognised records that came one after the other. */
export interface CacheHits {
  readonly partition: string;
  readonly attempt: number;
  /** They came before row `row` of part `part`, and after all rows before it. */
  readonly part: number;
  readonly row: number;
  /** Their slots in the known set. */
  readonly slots: ArrayLike<number>;
}

/**
 * Which records a reading has recognised, in the order in which they came: a file beside the journal, of 32-bit numbers, with a
 * checksum after each run. A line of the journal names the length that the file had; what is after that does not count.
 */
export class SeenLog {
  readonly #handle: FileHandle;
  readonly #partitions = new Map<string, number>();
  #words = new Uint32Array(chunkBytes / wordBytes);
  #used = 0;
  /** Bytes in the file and in what is being written. */
  #length: number;
  #written: Promise<unknown> = Promise.resolve();
  #isSynced = true;

  private constructor(handle: FileHandle, length: number) {
    this.#handle = handle;
    this.#length = length;
  }

  /** Cuts the log to `length` bytes and opens it for appending. Names are written again. */
  static async open(path: string, length: number): Promise<SeenLog> {
    const handle = await open(path, openFlags.update, 0o600);
    await handle.truncate(length);
    return new SeenLog(handle, length);
  }

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
    await this.#handle.close();
  }

  #partition(name: string): number {
    const known = this.#partitions.get(name);
    if (known !== undefined) return known;
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
    const record = this.#words.subarray(this.#used, this.#used + size + 1);
    record.set(head);
    record.set(rest, head.length);
    record[size] = checksum(record);
    this.#used += size + 1;
  }

  #reserve(words: number): void {
    if (this.#used + words <= this.#words.length) return;
    this.#write();
    if (words > this.#words.length) this.#words = new Uint32Array(words);
  }

  #write(): void {
    if (this.#used === 0) return;
    const bytes = Buffer.from(this.#words.slice(0, this.#used).buffer);
    const position = this.#length;
    this.#used = 0;
    this.#length += bytes.length;
    this.#isSynced = false;
    this.#written = this.#written.then(() => writeWhole(this.#handle, bytes, bytes.length, position));
    // The next sync awaits it and meets its failure. Until then it must not count as unhandled.
    this.#written.catch(() => undefined);
  }
}

/** Of a record without its last word, which is the checksum. */
function checksum(record: Uint32Array): number {
  return crc32(Buffer.from(record.buffer, record.byteOffset, record.byteLength - wordBytes));
}

async function readAt(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await handle.read(bytes, done, bytes.length - done, position + done);
    if (bytesRead === 0) throw new RangeError('the log is too short');
    done += bytesRead;
  }
}

/** The runs in the first `length` bytes of a log. @throws {RangeError} if that is no log, or is damaged */
export async function* readCacheHits(path: string, length: number): AsyncGenerator<CacheHits> {
  const names = new Map<number, string>();
  for await (const words of records(path, length)) {
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

/** How many words the record has that begins here, its checksum included; undefined if its head is not whole. */
function recordWords(words: Uint32Array, at: number): number | undefined {
  if (words[at] === nameMark) {
    const bytes = words[at + 2];
    return bytes === undefined ? undefined : nameWords + Math.ceil(bytes / wordBytes) + 1;
  }
  const slots = words[at + headWords - 1];
  return slots === undefined ? undefined : headWords + slots + 1;
}

async function* records(path: string, length: number): AsyncGenerator<Uint32Array> {
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
        const size = recordWords(words, at);
        if (size === undefined || at + size > words.length) break;
        const record = words.subarray(at, at + size);
        if (record.at(-1) !== checksum(record)) throw new RangeError('the log is damaged');
        yield record;
        at += size;
      }
      rest = words.slice(at);
    }
    if (rest.length > 0) throw new RangeError('the log ends inside of a record');
  } finally {
    await handle.close();
  }
}

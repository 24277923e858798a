import { type FileHandle, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { syncFolder } from '../store/durable.js';
import type { Reject } from './rejects.js';

const lineSchema = z.union([
  /** Offsets that were acknowledged: from one up to, not including, the other. */
  z.object({ done: z.tuple([z.number(), z.number()]) }),
  z.object({
    refused: z.number(),
    key: z.string().nullable(),
    column: z.string().nullable(),
    reason: z.string(),
    run_id: z.string(),
  }),
]);
type Line = z.infer<typeof lineSchema>;

/** What is known of the records of one outbox: which need not be sent again, and which were refused. */
export interface Acknowledged {
  has(offset: number): boolean;
  readonly count: number;
  readonly rejects: readonly Reject[];
}

/** A set of offsets as sorted ranges, for runs of millions that come almost in order. */
class Ranges {
  readonly #ranges: [number, number][] = [];
  count = 0;

  add(from: number, to: number): void {
    const before = this.#indexOf(from);
    const last = this.#ranges[before];
    this.count += to - from;
    if (last !== undefined && last[1] === from) last[1] = to;
    else this.#ranges.splice(before + 1, 0, [from, to]);
  }

  has(offset: number): boolean {
    const range = this.#ranges[this.#indexOf(offset)];
    return range !== undefined && offset < range[1];
  }

  /** The last range that begins at or before an offset; -1 where there is none. */
  #indexOf(offset: number): number {
    let [low, high] = [0, this.#ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ranges[middle]?.[0] ?? 0) <= offset) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

/** Consecutive offsets as ranges. */
export function asRanges(offsets: readonly number[]): [number, number][] {
  const ranges: [number, number][] = [];
  for (const offset of [...offsets].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === offset) last[1] = offset + 1;
    else ranges.push([offset, offset + 1]);
  }
  return ranges;
}

/** The whole lines of a file, and their length in bytes: a last line that a crash tore is none. */
async function readLines(path: string): Promise<{ lines: Line[]; length: number }> {
  const bytes = await readFile(path).catch(() => Buffer.alloc(0));
  const length = bytes.lastIndexOf(0x0a) + 1;
  const texts = bytes.subarray(0, length).toString('utf8').split('\n').slice(0, -1);
  return { lines: texts.map((text) => lineSchema.parse(JSON.parse(text))), length };
}

/**
 * Which records of an outbox have been acknowledged, in a file that is only appended to. A record is in it only after its
 * acknowledgement, so that a process that ends at any moment sends again at most what it had not yet written down.
 */
export class Acknowledgements implements Acknowledged {
  readonly #handle: FileHandle;
  readonly #done = new Ranges();
  readonly #rejects: Reject[] = [];
  #waiting = '';
  #writing: Promise<void> | undefined;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Opens the file, made where it is not there; a last line that a crash tore is cut off. */
  static async open(path: string): Promise<Acknowledgements> {
    const { lines, length } = await readLines(path);
    const handle = await open(path, 'a', 0o600);
    await handle.truncate(length);
    await syncFolder(dirname(path));
    const journal = new Acknowledgements(handle);
    for (const line of lines) journal.#take(line);
    return journal;
  }

  /** How many records a file says are dealt with; changes nothing. */
  static async count(path: string): Promise<number> {
    const { lines } = await readLines(path);
    return lines.reduce((sum, line) => sum + ('done' in line ? line.done[1] - line.done[0] : 1), 0);
  }

  #take(line: Line): void {
    if ('done' in line) {
      this.#done.add(...line.done);
      return;
    }
    const { refused, ...reject } = line;
    this.#done.add(refused, refused + 1);
    this.#rejects.push(reject);
  }

  has(offset: number): boolean {
    return this.#done.has(offset);
  }

  get count(): number {
    return this.#done.count;
  }

  get rejects(): readonly Reject[] {
    return this.#rejects;
  }

  /** Notes what became of records; it is on the disk soon, and surely after {@link flush}. */
  note(acknowledged: readonly number[], refused: readonly (Reject & { readonly offset: number })[]): void {
    const lines: Line[] = asRanges(acknowledged).map((done) => ({ done }));
    for (const { offset, ...reject } of refused) lines.push({ refused: offset, ...reject });
    for (const line of lines) this.#take(line);
    this.#waiting += lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    this.#writing ??= this.#write();
    // Who flushes is told of what failed.
    this.#writing.catch(() => undefined);
  }

  /** Writes what has come together while the lines before were written. */
  async #write(): Promise<void> {
    while (this.#waiting !== '') {
      const text = this.#waiting;
      this.#waiting = '';
      await this.#handle.appendFile(text);
      await this.#handle.datasync();
    }
    this.#writing = undefined;
  }

  async flush(): Promise<void> {
    await this.#writing;
  }

  async close(): Promise<void> {
    await this.flush().finally(() => this.#handle.close());
  }
}

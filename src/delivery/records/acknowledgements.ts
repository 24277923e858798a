import { type FileHandle, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sleep } from '../../core/clock.js';
import { openFlags, syncFolder, writeFileAtomically } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { lineContent, sealedLine } from '../../core/sealed-json.js';
import { z } from '../../core/zod.js';
import type { Reject } from '../delivery-state.js';
import { recordStateHint } from './position.js';

/** Acknowledgements gather for this time before more are written: a process that is killed loses those. */
const gatherMs = 5;

const lineSchema = z.union([
  /** A range of acknowledged offsets: the first is included, the last is not. */
  z.object({ done: z.tuple([z.number(), z.number()]) }),
  z.object({
    refused: z.number(),
    key: z.string().nullable(),
    column: z.string().nullable(),
    reason: z.string(),
    run_id: z.string(),
    op: z.enum(['insert', 'update', 'delete']).optional(),
    is_waiting: z.boolean().optional(),
  }),
]);
type Line = z.infer<typeof lineSchema>;

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

function parsed(text: string, number: number, path: string): Line {
  try {
    return lineSchema.parse(lineContent(text, number));
  } catch (cause) {
    throw new CdsyncError(`${path}:${number}: not the acknowledgement that was written there`, {
      code: 'state_unreadable',
      hint: recordStateHint,
      cause,
    });
  }
}

/**
 * The complete lines of a file and their length in bytes. A crash may have torn the last line; it is left out.
 * @throws {CdsyncError} `state_unreadable`
 */
async function readLines(path: string): Promise<{ lines: Line[]; length: number }> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  });
  const length = bytes.lastIndexOf(0x0a) + 1;
  const texts = bytes.subarray(0, length).toString('utf8').split('\n').slice(0, -1);
  return { lines: texts.map((text, index) => parsed(text, index + 1, path)), length };
}

/**
 * The acknowledged records of an outbox, in an append-only file. A record goes into the file only after its acknowledgement.
 * So after a crash at any moment, only records whose acknowledgement was not yet written are sent twice.
 */
export class Acknowledgements {
  readonly #handle: FileHandle;
  #lines = 0;
  /** One bit for each offset: whether its record is dealt with. */
  #done = new Uint8Array(64);
  #count = 0;
  readonly #rejects: Reject[] = [];
  #acknowledged: number[] = [];
  #refused: Line[] = [];
  #writing: Promise<void> | undefined;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Opens the file, or creates it. Cuts off a last line that a crash tore. */
  static async open(path: string): Promise<Acknowledgements> {
    const { lines, length } = await readLines(path);
    const handle = await open(path, openFlags.append, 0o600);
    await handle.truncate(length);
    await syncFolder(dirname(path));
    const journal = new Acknowledgements(handle);
    for (const line of lines) journal.#take(line);
    journal.#lines = lines.length;
    return journal;
  }

  /** How many records are dealt with, according to a file. Does not change the file. */
  static async count(path: string): Promise<number> {
    const { lines } = await readLines(path);
    return lines.reduce((sum, line) => sum + ('done' in line ? line.done[1] - line.done[0] : 1), 0);
  }

  /** Erases keys of refused records from a file that is not open. */
  static async erase(path: string, keys: ReadonlySet<string>): Promise<void> {
    const { lines } = await readLines(path);
    const isErased = (line: Line) => 'refused' in line && line.key !== null && keys.has(line.key);
    if (!lines.some(isErased)) return;
    const left = lines.map((line) => (isErased(line) ? { ...line, key: null } : line));
    await writeFileAtomically(path, left.map((line, index) => `${sealedLine(line, index + 1)}\n`).join(''));
  }

  #take(line: Line): void {
    const [from, to] = 'done' in line ? line.done : [line.refused, line.refused + 1];
    if (to > 8 * this.#done.length) {
      const longer = new Uint8Array(Math.ceil(to / 4));
      longer.set(this.#done);
      this.#done = longer;
    }
    for (let at = from; at < to; at += 1) {
      if (this.has(at)) continue;
      this.#done[at >>> 3] = (this.#done[at >>> 3] as number) | (1 << (at & 7));
      this.#count += 1;
    }
    if ('done' in line) return;
    const { refused: _, ...reject } = line;
    this.#rejects.push(reject);
  }

  has(offset: number): boolean {
    return ((this.#done[offset >>> 3] ?? 0) & (1 << (offset & 7))) !== 0;
  }

  get count(): number {
    return this.#count;
  }

  get rejects(): readonly Reject[] {
    return this.#rejects;
  }

  /** Notes results of records. They are on the disk soon, and at the latest after {@link flush}. */
  note(acknowledged: readonly number[], refused: readonly (Reject & { readonly offset: number })[]): void {
    for (const done of asRanges(acknowledged)) this.#take({ done });
    for (const offset of acknowledged) this.#acknowledged.push(offset);
    for (const { offset, ...reject } of refused) {
      const line = { refused: offset, ...reject };
      this.#take(line);
      this.#refused.push(line);
    }
    this.#writing ??= this.#write();
    // `flush` reports the failure.
    this.#writing.catch(() => undefined);
  }

  /** Writes all waiting lines, including those that arrive during the write. */
  async #write(): Promise<void> {
    for (;;) {
      const lines: Line[] = [...asRanges(this.#acknowledged).map((done) => ({ done })), ...this.#refused];
      if (lines.length === 0) break;
      [this.#acknowledged, this.#refused] = [[], []];
      const text = lines.map((line, index) => `${sealedLine(line, this.#lines + index + 1)}\n`).join('');
      this.#lines += lines.length;
      await this.#handle.appendFile(text);
      await this.#handle.datasync();
      // Of requests for single records, each would be written alone: as much work as to send it.
      await sleep(gatherMs);
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

import { type FileHandle, open } from 'node:fs/promises';
import { openFlags, writeWhole } from '../../core/durable.js';
import type { ScannedPage } from '../scan/scanned-page.js';

const chunkBytes = 1 << 20;
const none = Buffer.alloc(0);

/**
 * A JSON array of records on its way to DuckDB. Pages are copied into one of two chunks while the other is written, so the
 * memory does not grow with the file. The next batch uses the same file again, so the kernel need not find fresh pages.
 */
export class StagingFile {
  readonly path: string;
  #handle: FileHandle | undefined;
  #chunk = none;
  #spare = none;
  #used = 0;
  #position = 0;
  #records = 0;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(path: string) {
    this.path = path;
  }

  get records(): number {
    return this.#records;
  }

  /** Number of bytes so far. */
  get bytes(): number {
    return this.#position + this.#used;
  }

  async #flush(): Promise<void> {
    await this.#writing;
    // The file is not truncated: the new batch overwrites the bytes of the previous one.
    this.#handle ??= await open(this.path, openFlags.update, 0o600);
    const handle = this.#handle;
    const [full, used, position] = [this.#chunk, this.#used, this.#position];
    [this.#chunk, this.#spare] = [this.#spare, full];
    this.#position += used;
    this.#used = 0;
    this.#writing = writeWhole(handle, full, used, position);
    // The next await of #writing reports the failure. Until then it must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  /** Copies the kept records of a page to the end. */
  async append(page: ScannedPage): Promise<void> {
    if (page.records === 0) return;
    const needed = page.byteLength + 2;
    if (this.#used + needed > chunkBytes) await this.#flush();
    await this.#reserve(needed);
    this.#used += this.#chunk.write(this.#records === 0 ? '[\n' : ',\n', this.#used, 'latin1');
    this.#used = page.write(this.#chunk, this.#used);
    this.#records += page.records;
  }

  /** A chunk of this length, in place of one that is shorter: that has no bytes then. */
  async #reserve(bytes: number): Promise<void> {
    if (bytes <= this.#chunk.length) return;
    await this.#writing;
    this.#chunk = Buffer.allocUnsafe(Math.max(chunkBytes, bytes));
  }

  /** Ends the array; the file is complete on return. */
  async finish(): Promise<void> {
    if (this.#used + 2 > this.#chunk.length) await this.#flush();
    await this.#reserve(2);
    this.#used += this.#chunk.write('\n]', this.#used, 'latin1');
    await this.#flush();
    await this.#writing;
    await this.#handle?.truncate(this.#position);
  }

  /** Prepares for the next batch, which overwrites the same bytes. */
  reset(): void {
    if (this.#chunk.length > chunkBytes) this.#chunk = none;
    if (this.#spare.length > chunkBytes) this.#spare = none;
    this.#used = 0;
    this.#position = 0;
    this.#records = 0;
  }

  /** Closes the file, and frees the memory. It may be used again after {@link reset}. */
  async close(): Promise<void> {
    await this.#writing.catch(() => undefined);
    await this.#handle?.close();
    this.#handle = undefined;
    [this.#chunk, this.#spare] = [none, none];
  }
}

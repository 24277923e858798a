import { CdsyncError } from '../../core/errors.js';

/** A malformed page; a second request may return an intact one. The message says the expected form, never the value found. */
export class MalformedPageError extends CdsyncError {
  constructor(expected: string) {
    super(`the page is malformed: expected ${expected}`, {
      code: 'malformed_response',
      hint: 'the service, or something between, cut or garbled its answer; run again',
    });
    this.name = 'MalformedPageError';
  }
}

/** A rejected record. */
export interface Reject {
  /** Position in its page, from 0. */
  readonly position: number;
  readonly key: string | null;
  /** Stable: `id_not_in_url`, `id_refused`, `not_an_object`, `key_missing`, `key_not_text`, `key_not_unicode`, `attributes_not_an_object`, `nested_too_deep`. */
  readonly reason: string;
  readonly column: string | null;
  readonly raw: Buffer;
}

/** What became of a record of a page. */
export const RecordOutcome = {
  rejected: 0,
  kept: 1,
  /** Kept with U+FFFD in place of invalid Unicode. */
  replaced: 2,
} as const;

/** The checked records of one page, ready to copy into a staging file. */
export interface ScannedPage {
  /** Number of kept records. */
  readonly records: number;
  readonly rejects: readonly Reject[];
  /** Number of kept records in which bytes that are not UTF-8, or halves of surrogate pairs, became U+FFFD. */
  readonly replaced: number;
  /** Number of records with another value in an attribute of the filter. */
  readonly mismatches: number;
  readonly mismatchedAttribute: string | null;
  /** The attributes of the filter that any of its records has a value in. */
  readonly evaluated: ReadonlySet<string>;
  /** Where each record begins and ends in the body that was scanned, whatever became of it. */
  readonly bounds: Uint32Array;
  /** The {@link RecordOutcome} of each record. */
  readonly outcomes: Uint8Array;
  /** Two 32-bit hashes of each kept record's key. */
  readonly keyHashes: Uint32Array;
  /** Number of bytes that {@link ScannedPage.write} writes. */
  readonly byteLength: number;
  /** Size of the longest record, or more. */
  readonly maxRecordBytes: number;
  /** Copies the kept records, separated by commas, to `target` at `offset`. Returns the position after them. */
  write(target: Buffer, offset: number): number;
}

/** Checks the records of a page, and prepares them for a staging file; see RecordScanner. */
export interface PageScanner {
  /** @param start where the inside of the page's `data` array begins; `end` is where it ends, without the brackets */
  scan(body: Buffer, start: number, end: number): ScannedPage;
}

/** The columns, keys and filters that a scanner looks for. */
export interface ScanOptions {
  /** The member whose own members become columns; null if all members are columns. */
  readonly container: 'attributes' | null;
  /** The key fields; each must be a text that is not empty. */
  readonly key: readonly string[];
  /** Filters of the request: attribute to text. */
  readonly filter: ReadonlyMap<string, string>;
}

const comma = Buffer.from(',\n');
const nothing = Buffer.alloc(0);

/** Builds a scanned page from the body: unchanged stretches, patches inside them, and rewritten records. */
export class PageBuilder {
  readonly rejects: Reject[] = [];
  replaced = 0;
  mismatches = 0;
  mismatchedAttribute: string | null = null;
  readonly evaluated = new Set<string>();
  #body: Buffer;
  #records = 0;
  #maxRecordBytes = 0;
  #hashes = new Uint32Array(256);
  #bounds = new Uint32Array(256);
  #outcomes = new Uint8Array(128);
  /** Number of records, rejected ones included. */
  #all = 0;
  /** Replacements for the bytes from `from` to `to`, in the order of the body. */
  #patches: { from: number; to: number; text: Buffer }[] = [];
  #stretchFrom = -1;
  #stretchTo = -1;

  constructor(body: Buffer) {
    this.#body = body;
  }

  /** Patches of the record being scanned; {@link PageBuilder.keep} takes them, {@link PageBuilder.forget} drops them. */
  #pending: { from: number; to: number; text: Buffer }[] = [];

  patch(from: number, to: number, text: Buffer): void {
    this.#pending.push({ from, to, text });
  }

  forget(): void {
    if (this.#pending.length > 0) this.#pending = [];
  }

  /** Keeps the record from `from` to `to`, with its patches. */
  keep(from: number, to: number, hash1: number, hash2: number): void {
    let grown = 0;
    if (this.#pending.length > 0) {
      for (const patch of this.#pending) {
        grown += patch.text.length;
        this.#patches.push(patch);
      }
      this.#pending = [];
    }
    this.#gap(from);
    this.#stretchTo = to;
    this.#note(from, to, RecordOutcome.kept);
    this.#count(to - from + grown, hash1, hash2);
  }

  /** Keeps a rewritten record in place of the bytes from `from` to `to`. */
  replace(from: number, to: number, text: Buffer, hash1: number, hash2: number): void {
    this.forget();
    this.patch(from, to, text);
    this.keep(from, to, hash1, hash2);
  }

  /** The record kept last has text in place of invalid Unicode. */
  countReplaced(): void {
    this.replaced += 1;
    this.#outcomes[this.#all - 1] = RecordOutcome.replaced;
  }

  #note(from: number, to: number, outcome: number): void {
    if (this.#all === this.#outcomes.length) {
      const [bounds, outcomes] = [new Uint32Array(this.#all * 4), new Uint8Array(this.#all * 2)];
      bounds.set(this.#bounds);
      outcomes.set(this.#outcomes);
      [this.#bounds, this.#outcomes] = [bounds, outcomes];
    }
    this.#bounds[this.#all * 2] = from;
    this.#bounds[this.#all * 2 + 1] = to;
    this.#outcomes[this.#all] = outcome;
    this.#all += 1;
  }

  /** Extends the stretch to the next kept record. If records between were rejected, cuts them out. */
  #gap(from: number): void {
    if (this.#stretchFrom < 0) this.#stretchFrom = from;
    else if (this.#skipped) this.#insertCut(this.#stretchTo, from);
    this.#skipped = false;
  }

  #skipped = false;

  #insertCut(from: number, to: number): void {
    let index = this.#patches.length;
    while (index > 0 && (this.#patches[index - 1]?.from ?? 0) >= from) index -= 1;
    this.#patches.splice(index, 0, { from, to, text: comma });
  }

  reject(reject: Omit<Reject, 'raw'>, from: number, to: number): void {
    this.forget();
    this.#skipped = this.#stretchFrom >= 0;
    this.#note(from, to, RecordOutcome.rejected);
    this.rejects.push({ ...reject, raw: Buffer.from(this.#body.subarray(from, to)) });
  }

  #count(bytes: number, hash1: number, hash2: number): void {
    if (bytes > this.#maxRecordBytes) this.#maxRecordBytes = bytes;
    if (this.#records * 2 >= this.#hashes.length) {
      const larger = new Uint32Array(this.#hashes.length * 2);
      larger.set(this.#hashes);
      this.#hashes = larger;
    }
    this.#hashes[this.#records * 2] = hash1;
    this.#hashes[this.#records * 2 + 1] = hash2;
    this.#records += 1;
  }

  build(): ScannedPage {
    const [body, patches, from, to] = [this.#body, this.#patches, this.#stretchFrom, this.#stretchTo];
    const grown = patches.reduce((sum, patch) => sum + patch.text.length - (patch.to - patch.from), 0);
    return {
      records: this.#records,
      rejects: this.rejects,
      replaced: this.replaced,
      mismatches: this.mismatches,
      mismatchedAttribute: this.mismatchedAttribute,
      evaluated: this.evaluated,
      bounds: this.#bounds.subarray(0, this.#all * 2),
      outcomes: this.#outcomes.subarray(0, this.#all),
      keyHashes: this.#hashes.subarray(0, this.#records * 2),
      byteLength: this.#records === 0 ? 0 : to - from + grown,
      maxRecordBytes: this.#maxRecordBytes,
      write: (target, offset) => {
        if (this.#records === 0) return offset;
        let [at, out] = [from, offset];
        for (const patch of patches) {
          out += body.copy(target, out, at, patch.from);
          out += (patch.text ?? nothing).copy(target, out);
          at = patch.to;
        }
        return out + body.copy(target, out, at, to);
      },
    };
  }
}

/** Two 32-bit hashes of a key's bytes, for the Bloom filter that notices circles: FNV-1a and a variant. */
export function hashKey(bytes: Uint8Array, from: number, to: number, seed: number): number {
  let hash = 0x811c9dc5 ^ seed;
  for (let index = from; index < to; index += 1) hash = Math.imul(hash ^ (bytes[index] as number), 0x01000193);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

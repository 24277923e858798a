import { type Column, type ColumnOrigin, ColumnSet, type DeclaredColumn } from '../../columns/columns.js';
import { type ExactValue, NumberText, parseExact } from './exact-json.js';
import { ExactScanner } from './exact-scanner.js';
import type { ScanOptions } from './scanned-page.js';

/** A value that fewer records share may identify a person. */
const minHolders = 5;

interface Tally {
  /** Records with a value. */
  filled: number;
  /** How many records have each scalar value, by its text in a filter. */
  readonly holders: Map<string, number>;
}

function filterText(value: ExactValue): string | undefined {
  if (value instanceof NumberText) return value.text;
  return typeof value === 'string' || typeof value === 'boolean' ? String(value) : undefined;
}

/**
 * Learns a stream's columns from some records. A scanner takes the records as in a run, so that names and types are those of a
 * run over the same records with `strings: infer`.
 */
export class ColumnSample {
  readonly columns: ColumnSet;
  /** Number of records that a run would keep. */
  records = 0;
  readonly #scanner: ExactScanner;
  /** By column name; no two columns share a name. */
  readonly #tallies = new Map<string, Tally>();

  constructor(declared: readonly DeclaredColumn[], options: ScanOptions) {
    const nothing = { names: new Set<string>(), name: () => undefined, type: () => undefined };
    const infersFormat = (place: ColumnOrigin, field: string) => place === 'attribute' || !options.key.includes(field);
    this.columns = new ColumnSet(declared, { ...nothing, infersFormat });
    this.#scanner = new ExactScanner(this.columns, options);
  }

  /**
   * Takes in the records of a page.
   * @param start where the inside of the page's `data` array begins; `end` is where it ends, without the brackets
   * @throws {MalformedPageError}
   */
  take(body: Buffer, start: number, end: number): void {
    const page = this.#scanner.scan(body, start, end);
    const text = Buffer.alloc(page.byteLength);
    page.write(text, 0);
    const records = parseExact(`[${text.toString('utf8')}]`) as Map<string, ExactValue>[];
    for (const record of records) this.#count(record);
    this.records += records.length;
  }

  /** How many of the records have no value in the column. */
  nulls({ name }: Column): number {
    return this.records - (this.#tallies.get(name)?.filled ?? 0);
  }

  /** The rarest value that still does not identify a person; undefined if every value might. */
  sharedValue({ name }: Column): string | undefined {
    let rarest: string | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const [text, count] of this.#tallies.get(name)?.holders ?? []) {
      if (count >= minHolders && count < fewest && text !== '') [rarest, fewest] = [text, count];
    }
    return rarest;
  }

  /** How many of the records have this value in the column. */
  holders({ name }: Column, text: string): number {
    return this.#tallies.get(name)?.holders.get(text) ?? 0;
  }

  #count(members: ReadonlyMap<string, ExactValue>): void {
    for (const [name, value] of members) if (value !== null) this.#tally(name, value);
  }

  #tally(name: string, value: ExactValue): void {
    let tally = this.#tallies.get(name);
    if (tally === undefined) {
      tally = { filled: 0, holders: new Map() };
      this.#tallies.set(name, tally);
    }
    tally.filled += 1;
    const text = filterText(value);
    if (text !== undefined) tally.holders.set(text, (tally.holders.get(text) ?? 0) + 1);
  }
}

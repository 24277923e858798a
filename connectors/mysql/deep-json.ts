import { createReadStream } from 'node:fs';
import type { LoadColumn } from '../../src/sdk/index.js';

/** How deep MariaDB lets JSON be nested. Its error for a deeper one names no row. */
export const mariadbDepth = 31;

const [quote, comma, newline, backslash] = [0x22, 0x2c, 0x0a, 0x5c];
const opening = new Set([0x5b, 0x7b]);
const closing = new Set([0x5d, 0x7d]);

interface DeepRow {
  /** Counted from 1. */
  readonly row: number;
  readonly column: string;
}

/** Walks over the values of a CSV file byte by byte, and finds the JSON in it that is nested too deep. */
class DepthScan {
  readonly found: DeepRow[] = [];
  readonly #columns: readonly LoadColumn[];
  readonly #most: number;
  #row = 1;
  #column = 0;
  /** Inside of quotes of CSV; `closed` after a quote that may be the first of two. */
  #csv: 'plain' | 'quoted' | 'closed' = 'plain';
  #json: 'value' | 'text' | 'escaped' = 'value';
  #depth = 0;

  constructor(columns: readonly LoadColumn[], most: number) {
    this.#columns = columns;
    this.#most = most;
  }

  take(byte: number): void {
    if (this.#csv === 'quoted') {
      if (byte === quote) this.#csv = 'closed';
      else this.#value(byte);
    } else if (byte === quote) {
      // Doubled inside of quotes, it is one of the value.
      if (this.#csv === 'closed') this.#value(byte);
      this.#csv = 'quoted';
    } else {
      this.#csv = 'plain';
      if (byte === comma) this.#next(this.#row, this.#column + 1);
      else if (byte === newline) this.#next(this.#row + 1, 0);
      else this.#value(byte);
    }
  }

  #next(row: number, column: number): void {
    [this.#row, this.#column, this.#depth, this.#json] = [row, column, 0, 'value'];
  }

  #value(byte: number): void {
    if (this.#json === 'escaped') this.#json = 'text';
    else if (this.#json === 'text') {
      if (byte === backslash) this.#json = 'escaped';
      else if (byte === quote) this.#json = 'value';
    } else if (byte === quote) this.#json = 'text';
    else if (closing.has(byte)) this.#depth -= 1;
    else if (opening.has(byte)) this.#open();
  }

  #open(): void {
    this.#depth += 1;
    const column = this.#columns[this.#column];
    if (this.#depth <= this.#most || column?.targetType !== 'json' || this.found.at(-1)?.row === this.#row) return;
    this.found.push({ row: this.#row, column: column.name });
  }
}

/** The rows of a CSV file whose JSON is nested deeper than `most`, each with the first such column. */
export async function deepRows(path: string, columns: readonly LoadColumn[], most: number): Promise<DeepRow[]> {
  const scan = new DepthScan(columns, most);
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }))
    for (const byte of chunk as Buffer) scan.take(byte);
  return scan.found;
}

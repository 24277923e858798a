import type { ColumnSet } from '../../columns/columns.js';
import { jsonBytes } from './bytes.js';
import { skipSpace } from './json-bytes.js';
import { MalformedPageError, takeExactly } from './page-text.js';
import { PageBuilder, type PageScanner, type ScannedPage, type ScanOptions } from './scanned-page.js';
import { becameJson, jsonColumns } from './text-column.js';

const { comma } = jsonBytes;

/** The slow path for whole pages: parses each record exactly and rewrites it. It is the reference for the fast path. */
export class ExactScanner implements PageScanner {
  readonly #columns: ColumnSet;
  readonly #options: ScanOptions;

  constructor(columns: ColumnSet, options: ScanOptions) {
    this.#columns = columns;
    this.#options = options;
  }

  scan(body: Buffer, start: number, end: number): ScannedPage {
    const before = jsonColumns(this.#columns);
    const scanned = this.#pass(body, start, end);
    // If a column became JSON inside this page, a second pass writes the earlier records as text too.
    return becameJson(this.#columns, before) ? this.#pass(body, start, end) : scanned;
  }

  #pass(body: Buffer, start: number, end: number): ScannedPage {
    const builder = new PageBuilder(body);
    let at = skipSpace(body, start);
    for (let position = 0; at < end; position += 1) {
      at = skipSpace(body, takeExactly(body, at, position, builder, this.#columns, this.#options));
      if (at === end) break;
      if (at > end || body[at] !== comma) throw new MalformedPageError('a comma between two records');
      at = skipSpace(body, at + 1);
      if (at >= end) throw new MalformedPageError('a record after a comma');
    }
    return builder.build();
  }
}

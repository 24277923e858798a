import type { ColumnSet } from '../../columns/columns.js';
import { jsonBytes } from './bytes.js';
import { exactRecord } from './exact-record.js';
import { maxDepth, skipSpace, skipValue, strictText } from './json-bytes.js';
import {
  hashKey,
  MalformedPageError,
  PageBuilder,
  type PageScanner,
  type ScannedPage,
  type ScanOptions,
} from './scanned-page.js';
import { becameJson, jsonColumns } from './text-column.js';

/** Takes one record over the slow path. Returns the position after it. */
export function takeExactly(
  body: Buffer,
  at: number,
  position: number,
  builder: PageBuilder,
  columns: ColumnSet,
  options: ScanOptions,
): number {
  const { end, depth } = skipValue(body, at);
  if (end < 0) throw new MalformedPageError('valid JSON in every record');
  if (depth > maxDepth) {
    builder.reject({ position, key: null, reason: 'nested_too_deep', column: null }, at, end);
    return end;
  }
  const record = exactRecord(strictText(body.subarray(at, end)), columns, options);
  if (record.reject !== undefined) {
    builder.reject({ ...record.reject, position }, at, end);
    return end;
  }
  let [hash1, hash2] = [0, 1];
  for (const key of record.keys) {
    const bytes = Buffer.from(key);
    hash1 = hashKey(bytes, 0, bytes.length, hash1);
    hash2 = hashKey(bytes, 0, bytes.length, hash2);
  }
  builder.replace(at, end, Buffer.from(record.text), hash1, hash2);
  if (record.replaced) builder.countReplaced();
  for (const attribute of record.evaluated) builder.evaluated.add(attribute);
  if (record.mismatch !== null) {
    builder.mismatches += 1;
    builder.mismatchedAttribute ??= record.mismatch;
  }
  return end;
}

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

import type { ColumnSet } from '../../columns/columns.js';
import { CdsyncError } from '../../core/errors.js';
import { exactRecord } from './exact-record.js';
import { maxDepth, skipValue } from './json-bytes.js';
import { hashKey, type PageBuilder, type ScanOptions } from './scanned-page.js';
import { strictText } from './strict-text.js';

/** A malformed page; a second request may bring an intact one. The message says what was expected, never what was found. */
export class MalformedPageError extends CdsyncError {
  constructor(expected: string) {
    super(`the page is malformed: expected ${expected}`, {
      code: 'malformed_response',
      hint: 'the service, or something between, cut or garbled its answer; run again',
    });
    this.name = 'MalformedPageError';
  }
}

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
  for (const attribute of record.judged) builder.judged.add(attribute);
  if (record.mismatch !== null) {
    builder.mismatches += 1;
    builder.mismatchedAttribute ??= record.mismatch;
  }
  return end;
}

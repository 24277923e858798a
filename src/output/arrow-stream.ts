import type { DuckDBValue } from '@duckdb/node-api';
import { AsyncByteQueue, RecordBatchStreamWriter } from 'apache-arrow';
import { ArrowRows } from '../sdk/duckdb/arrow.js';
import {
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
} from '../sdk/duckdb/node-api.js';
import type { PublishedRows } from '../snapshot/published.js';

/** Keeps the bytes of a writer of Arrow until they are taken. */
class Buffered extends AsyncByteQueue {
  #parts: Uint8Array[] = [];

  override write(part: Uint8Array): void {
    this.#parts.push(part);
  }

  take(): Uint8Array {
    const parts = this.#parts;
    this.#parts = [];
    return Buffer.concat(parts);
  }
}

/** Bytes of the values of a batch, about. */
const bytesAtOnce = 4_000_000;

function bytesOf(value: DuckDBValue): number {
  if (typeof value === 'string') return value.length;
  if (value instanceof DuckDBBlobValue) return value.bytes.length;
  const parts = partsOf(value);
  return parts === undefined ? 8 : parts.reduce<number>((sum, part) => sum + bytesOf(part), 8);
}

function partsOf(value: DuckDBValue): readonly DuckDBValue[] | undefined {
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) return value.items;
  if (value instanceof DuckDBStructValue) return Object.values(value.entries);
  return value instanceof DuckDBMapValue ? value.entries.flatMap(({ key, value: of }) => [key, of]) : undefined;
}

function* batches(rows: Iterable<DuckDBValue[]>): Generator<DuckDBValue[][]> {
  let batch: DuckDBValue[][] = [];
  let bytes = 0;
  for (const row of rows) {
    batch.push(row);
    bytes += row.reduce<number>((sum, value) => sum + bytesOf(value), 0);
    if (bytes < bytesAtOnce) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

/**
 * Writes rows as an IPC stream of Apache Arrow as they arrive, and no faster than they are taken. Its end is marked only after the
 * last row: a reader can identify a stream that was cut off.
 */
export async function writeArrow(result: PublishedRows, write: (bytes: Uint8Array) => Promise<void>): Promise<void> {
  const rows = new ArrowRows(result.names, result.types, { decimals: 'decimal' });
  const sink = new Buffered();
  const writer = new RecordBatchStreamWriter();
  writer.reset(sink, rows.schema);
  for await (const chunk of result.chunks())
    for (const batch of batches(chunk)) {
      const columns = result.names.map((_, column) => batch.map((row) => row[column] ?? null));
      writer.write(rows.batch(columns, batch.length));
      await write(sink.take());
    }
  writer.finish();
  await write(sink.take());
}

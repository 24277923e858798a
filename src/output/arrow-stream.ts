import { AsyncByteQueue, RecordBatchStreamWriter } from 'apache-arrow';
import { ArrowRows } from '../sdk/duckdb/arrow.js';
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

/**
 * Writes rows as an IPC stream of Apache Arrow as they arrive, and no faster than they are taken. Its end is marked only after the
 * last row: a reader can identify a stream that was cut off.
 */
export async function writeArrow(result: PublishedRows, write: (bytes: Uint8Array) => Promise<void>): Promise<void> {
  const rows = new ArrowRows(result.names, result.types, { decimals: 'decimal' });
  const sink = new Buffered();
  const writer = new RecordBatchStreamWriter();
  writer.reset(sink, rows.schema);
  for await (const chunk of result.chunks()) {
    const columns = result.names.map((_, column) => chunk.map((row) => row[column] ?? null));
    writer.write(rows.batch(columns, chunk.length));
    await write(sink.take());
  }
  writer.finish();
  await write(sink.take());
}

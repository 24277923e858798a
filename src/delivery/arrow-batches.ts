import type { RecordBatch } from 'apache-arrow';
import { ArrowRows } from '../sdk/duckdb/arrow.js';
import type { Session } from '../storage/duckdb.js';

/** The rows of a query as Arrow batches; decimals and JSON are text, digit for digit. */
export async function* arrowBatches(
  session: Session,
  query: string,
  names: readonly string[],
): AsyncGenerator<RecordBatch> {
  let rows: ArrowRows | undefined;
  for await (const chunk of session.chunks(query)) {
    const types = names.map((_, index) => chunk.getColumnVector(index).type);
    rows ??= new ArrowRows(names, types, { decimals: 'text' });
    yield rows.batch(
      names.map((_, index) => chunk.getColumnValues(index)),
      chunk.rowCount,
    );
  }
}

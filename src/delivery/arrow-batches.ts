import {
  Bool,
  type DataType,
  DateDay,
  Field,
  Float64,
  Int64,
  List,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  TimestampMicrosecond,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import type { ColumnType } from '../sdk/column-type.js';
import type { LoadColumn } from '../sdk/load.js';
import type { Session } from '../storage/duckdb.js';

/** The Arrow type in which a column is handed over. */
function arrowType(type: ColumnType): DataType {
  switch (type.kind) {
    case 'boolean':
      return new Bool();
    case 'int64':
      return new Int64();
    case 'double':
      return new Float64();
    case 'timestamp':
      return new TimestampMicrosecond('UTC');
    case 'date':
      return new DateDay();
    case 'list':
      return new List(new Field('item', arrowType(type.element), true));
    case 'struct':
      return new Struct(type.fields.map((field) => new Field(field.name, arrowType(field.type), true)));
    // As text, digit for digit: few readers understand Arrow's decimals.
    case 'int128':
    case 'decimal':
    case 'text':
    case 'json':
      return new Utf8();
  }
}

const day = 86_400_000;

/** Converts a value of DuckDB to the form that Arrow's builders take. */
function arrowValue(value: unknown, type: ColumnType): unknown {
  if (value === null || value === undefined) return null;
  switch (type.kind) {
    case 'boolean':
    case 'double':
      return value;
    case 'int64':
      return BigInt(value as bigint | number);
    case 'timestamp':
      return (value as { micros: bigint }).micros;
    case 'date':
      return new Date((value as { days: number }).days * day);
    case 'list':
      return (value as { items: readonly unknown[] }).items.map((item) => arrowValue(item, type.element));
    case 'struct': {
      const { entries } = value as { entries: Readonly<Record<string, unknown>> };
      return Object.fromEntries(type.fields.map((field) => [field.name, arrowValue(entries[field.name], field.type)]));
    }
    case 'int128':
    case 'decimal':
    case 'text':
    case 'json':
      return String(value);
  }
}

/** The rows of a query as Arrow batches. The query must return exactly `columns`, in their order. */
export async function* arrowBatches(
  session: Session,
  query: string,
  columns: readonly LoadColumn[],
): AsyncGenerator<RecordBatch> {
  const schema = new Schema(columns.map(({ name, handedOverAs }) => new Field(name, arrowType(handedOverAs), true)));
  const type = new Struct(schema.fields);
  for await (const chunk of session.chunks(query)) {
    const children = columns.map(({ handedOverAs }, index) => {
      const values = chunk.getColumnValues(index).map((value) => arrowValue(value, handedOverAs));
      return vectorFromArray(values, arrowType(handedOverAs)).data[0];
    });
    const data = makeData({ type, length: chunk.rowCount, nullCount: 0, children: children as never });
    yield new RecordBatch(schema, data);
  }
}

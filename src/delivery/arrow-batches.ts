import {
  Bool,
  type Data,
  type DataType,
  DateDay,
  Field,
  Float64,
  Int32,
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

const plainTypes = {
  boolean: () => new Bool(),
  int64: () => new Int64(),
  double: () => new Float64(),
  timestamp: () => new TimestampMicrosecond('UTC'),
  date: () => new DateDay(),
  // As text, digit for digit: few readers understand Arrow's decimals.
  int128: () => new Utf8(),
  decimal: () => new Utf8(),
  text: () => new Utf8(),
  json: () => new Utf8(),
};

/** The numbers that times and dates are: Arrow's builders take them as milliseconds, which have no microseconds. */
const countTypes = { ...plainTypes, timestamp: plainTypes.int64, date: () => new Int32() };

/** The Arrow type of a column, with these types of single values. */
function arrowType(type: ColumnType, single: Record<keyof typeof plainTypes, () => DataType> = plainTypes): DataType {
  switch (type.kind) {
    case 'list':
      return new List(new Field('item', arrowType(type.element, single), true));
    case 'struct':
      return new Struct(type.fields.map(({ name, type: of }) => new Field(name, arrowType(of, single), true)));
    default:
      return single[type.kind]();
  }
}

/** The same bytes as another type of the same width. */
function retyped(data: Data, type: DataType): Data {
  const children = data.children.map((child, index) => retyped(child, type.children[index]?.type as DataType));
  return data.clone(type, data.offset, data.length, data.nullCount, data.buffers, children);
}

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
      return (value as { days: number }).days;
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
      const [built] = vectorFromArray(values, arrowType(handedOverAs, countTypes)).data;
      return retyped(built as Data, arrowType(handedOverAs));
    });
    const data = makeData({ type, length: chunk.rowCount, nullCount: 0, children: children as never });
    yield new RecordBatch(schema, data);
  }
}

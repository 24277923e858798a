import * as arrow from 'apache-arrow';
import type { ColumnType } from '../sdk/column-type.js';
import type { LoadColumn } from '../sdk/load.js';
import type { Session } from '../storage/duckdb.js';

const plainTypes = {
  boolean: () => new arrow.Bool(),
  int64: () => new arrow.Int64(),
  double: () => new arrow.Float64(),
  timestamp: () => new arrow.TimestampMicrosecond('UTC'),
  date: () => new arrow.DateDay(),
  // As text, digit for digit: few readers understand Arrow's decimals.
  int128: () => new arrow.Utf8(),
  decimal: () => new arrow.Utf8(),
  text: () => new arrow.Utf8(),
  json: () => new arrow.Utf8(),
};

/** The numbers that times and dates are: Arrow's builders take them as milliseconds, which have no microseconds. */
const countTypes = { ...plainTypes, timestamp: plainTypes.int64, date: () => new arrow.Int32() };

/** The Arrow type of a column, with these types of single values. */
function arrowType(
  type: ColumnType,
  single: Record<keyof typeof plainTypes, () => arrow.DataType> = plainTypes,
): arrow.DataType {
  switch (type.kind) {
    case 'list':
      return new arrow.List(new arrow.Field('item', arrowType(type.element, single), true));
    case 'struct':
      return new arrow.Struct(
        type.fields.map(({ name, type: of }) => new arrow.Field(name, arrowType(of, single), true)),
      );
    default:
      return single[type.kind]();
  }
}

/** The same bytes as another type of the same width. */
function retyped(data: arrow.Data, type: arrow.DataType): arrow.Data {
  const children = data.children.map((child, index) => retyped(child, type.children[index]?.type as arrow.DataType));
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
): AsyncGenerator<arrow.RecordBatch> {
  const schema = new arrow.Schema(
    columns.map(({ name, handedOverAs }) => new arrow.Field(name, arrowType(handedOverAs), true)),
  );
  const type = new arrow.Struct(schema.fields);
  for await (const chunk of session.chunks(query)) {
    const children = columns.map(({ handedOverAs }, index) => {
      const values = chunk.getColumnValues(index).map((value) => arrowValue(value, handedOverAs));
      const [built] = arrow.vectorFromArray(values, arrowType(handedOverAs, countTypes)).data;
      return retyped(built as arrow.Data, arrowType(handedOverAs));
    });
    const data = arrow.makeData({ type, length: chunk.rowCount, nullCount: 0, children: children as never });
    yield new arrow.RecordBatch(schema, data);
  }
}

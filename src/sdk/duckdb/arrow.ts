import type { DuckDBDecimalType, DuckDBType, DuckDBValue } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import { DuckDBTypeId } from './node-api.js';

/**
 * How values of a DuckDB type come into Arrow. Its builders take numbers of JavaScript, which would lose digits of times and
 * decimals: `built` is a type of the same bytes that they can take exactly.
 */
interface Form {
  readonly type: arrow.DataType;
  readonly built: arrow.DataType;
  value(value: DuckDBValue): unknown;
}

interface ArrowOptions {
  /** Decimals and integers of 128 bits: as Arrow's decimals, or as text, which every reader understands. */
  readonly decimals: 'decimal' | 'text';
}

function plain(type: arrow.DataType, value: Form['value'] = (value) => value, built = type): Form {
  return { type, built, value };
}

const text = () => plain(new arrow.Utf8(), String);

/** The 16 bytes of an integer, the lowest first. */
function bytesOf(value: bigint): Uint8Array {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setBigInt64(0, BigInt.asIntN(64, value), true);
  view.setBigInt64(8, BigInt.asIntN(64, value >> 64n), true);
  return bytes;
}

/** The count that a time or a date is. */
function count(type: arrow.DataType, member: string, built: arrow.DataType = new arrow.Int64()): Form {
  return plain(type, (value) => (value as unknown as Readonly<Record<string, unknown>>)[member], built);
}

function decimal(scale: number, precision: number, value: (value: never) => bigint): Form {
  const type = new arrow.Decimal(scale, precision, 128);
  return plain(type, (cell) => bytesOf(value(cell as never)), new arrow.FixedSizeBinary(16));
}

const singleForms: Partial<Record<DuckDBTypeId, () => Form>> = {
  [DuckDBTypeId.BOOLEAN]: () => plain(new arrow.Bool()),
  [DuckDBTypeId.TINYINT]: () => plain(new arrow.Int8()),
  [DuckDBTypeId.SMALLINT]: () => plain(new arrow.Int16()),
  [DuckDBTypeId.INTEGER]: () => plain(new arrow.Int32()),
  [DuckDBTypeId.BIGINT]: () => plain(new arrow.Int64()),
  [DuckDBTypeId.UTINYINT]: () => plain(new arrow.Uint8()),
  [DuckDBTypeId.USMALLINT]: () => plain(new arrow.Uint16()),
  [DuckDBTypeId.UINTEGER]: () => plain(new arrow.Uint32()),
  [DuckDBTypeId.UBIGINT]: () => plain(new arrow.Uint64()),
  [DuckDBTypeId.FLOAT]: () => plain(new arrow.Float32()),
  [DuckDBTypeId.DOUBLE]: () => plain(new arrow.Float64()),
  [DuckDBTypeId.DATE]: () => count(new arrow.DateDay(), 'days', new arrow.Int32()),
  [DuckDBTypeId.TIME]: () => count(new arrow.TimeMicrosecond(), 'micros'),
  [DuckDBTypeId.TIMESTAMP]: () => count(new arrow.TimestampMicrosecond(), 'micros'),
  [DuckDBTypeId.TIMESTAMP_TZ]: () => count(new arrow.TimestampMicrosecond('UTC'), 'micros'),
  [DuckDBTypeId.TIMESTAMP_S]: () => count(new arrow.TimestampSecond(), 'seconds'),
  [DuckDBTypeId.TIMESTAMP_MS]: () => count(new arrow.TimestampMillisecond(), 'millis'),
  [DuckDBTypeId.TIMESTAMP_NS]: () => count(new arrow.TimestampNanosecond(), 'nanos'),
  [DuckDBTypeId.BLOB]: () => count(new arrow.Binary(), 'bytes', new arrow.Binary()),
};

function listOf(element: Form): Form {
  const field = (type: arrow.DataType) => new arrow.List(new arrow.Field('item', type, true));
  return plain(
    field(element.type),
    (value) => itemsOf(value).map((item) => (item === null ? null : element.value(item))),
    field(element.built),
  );
}

function itemsOf(value: DuckDBValue): readonly DuckDBValue[] {
  return (value as unknown as { items: readonly DuckDBValue[] }).items;
}

function structOf(fields: readonly (readonly [name: string, form: Form])[]): Form {
  const members = (kind: 'type' | 'built') => fields.map(([name, form]) => new arrow.Field(name, form[kind], true));
  return plain(
    new arrow.Struct(members('type')),
    (value) => {
      const { entries } = value as unknown as { entries: Readonly<Record<string, DuckDBValue>> };
      return Object.fromEntries(
        fields.map(([name, form]) => [
          name,
          (entries[name] ?? null) === null ? null : form.value(entries[name] ?? null),
        ]),
      );
    },
    new arrow.Struct(members('built')),
  );
}

/** A map has the bytes of a list of its entries. */
function mapOf(key: Form, value: Form): Form {
  const entries = structOf([
    ['key', key],
    ['value', value],
  ]);
  const [, valueField] = (entries.type as arrow.Struct).children;
  const entry = new arrow.Struct([new arrow.Field('key', key.type, false), valueField as arrow.Field]);
  return plain(
    new arrow.Map_(new arrow.Field('entries', entry as never, false)),
    (map) =>
      (map as unknown as { entries: readonly DuckDBValue[] }).entries.map((pair) =>
        entries.value({ entries: pair } as never),
      ),
    listOf(entries).built,
  );
}

/** Times with an offset, intervals, UUIDs, bits, unions and types that DuckDB adds later are text, as DuckDB writes it. */
function formOf(type: DuckDBType, options: ArrowOptions): Form {
  const of = (inner: DuckDBType) => formOf(inner, options);
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY:
      return listOf(of((type as { valueType: DuckDBType }).valueType));
    case DuckDBTypeId.STRUCT: {
      const { entryNames, entryTypes } = type as { entryNames: readonly string[]; entryTypes: readonly DuckDBType[] };
      return structOf(entryNames.map((name, index) => [name, of(entryTypes[index] as DuckDBType)]));
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as { keyType: DuckDBType; valueType: DuckDBType };
      return mapOf(of(keyType), of(valueType));
    }
    case DuckDBTypeId.HUGEINT:
      return options.decimals === 'text' ? text() : decimal(0, 38, (value: bigint) => value);
    case DuckDBTypeId.DECIMAL: {
      const { width, scale } = type as DuckDBDecimalType;
      return options.decimals === 'text' ? text() : decimal(scale, width, ({ value }: { value: bigint }) => value);
    }
    default:
      return (singleForms[type.typeId] ?? text)();
  }
}

/** The same bytes as another type of the same width. */
function retyped(data: arrow.Data, type: arrow.DataType): arrow.Data {
  const children = data.children.map((child, index) => retyped(child, type.children[index]?.type as arrow.DataType));
  const { buffers } = data;
  // Decimals are written as words of 32 bits.
  if (arrow.DataType.isDecimal(type)) {
    const { buffer, byteOffset, byteLength } = buffers[arrow.BufferType.DATA];
    buffers[arrow.BufferType.DATA] = new Uint32Array(buffer, byteOffset, byteLength / 4);
  }
  return data.clone(type, data.offset, data.length, data.nullCount, buffers, children);
}

/** Rows of DuckDB as Arrow, digit for digit, one batch for each chunk. */
export class ArrowRows {
  readonly schema: arrow.Schema;
  readonly #forms: readonly Form[];

  constructor(names: readonly string[], types: readonly DuckDBType[], options: ArrowOptions) {
    this.#forms = types.map((type) => formOf(type, options));
    this.schema = new arrow.Schema(
      this.#forms.map(({ type }, index) => new arrow.Field(names[index] as string, type, true)),
    );
  }

  /** @param columns the values of each column */
  batch(columns: readonly (readonly DuckDBValue[])[], rowCount: number): arrow.RecordBatch {
    const children = this.#forms.map((form, index) => {
      const values = (columns[index] ?? []).map((value) => (value === null ? null : form.value(value)));
      const [built] = arrow.vectorFromArray(values, form.built).data;
      return retyped(built as arrow.Data, form.type);
    });
    const type = new arrow.Struct(this.schema.fields);
    const data = arrow.makeData({ type, length: rowCount, nullCount: 0, children: children as never });
    return new arrow.RecordBatch(this.schema, data);
  }
}

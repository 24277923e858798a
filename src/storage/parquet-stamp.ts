import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { openFlags, renameDurably, temporaryName } from './durable.js';
import type { ParquetFile } from './parquet.js';
import {
  readStruct,
  type ThriftField,
  type ThriftStruct,
  ThriftType,
  type ThriftValue,
  writeStruct,
} from './thrift.js';

/** A column that has one value in all rows: a text or, as milliseconds since 1970, a time. */
interface ConstantColumn {
  readonly name: string;
  readonly value: string | Date;
}

/*
 * Numbers are those of Parquet's Thrift definition (parquet.thrift of the Parquet format, 2.10). Columns are written as DuckDB writes
 * them, in the encodings of version 1.
 */
const magic = Buffer.from('PAR1');
const physical = { int64: 2n, byteArray: 6n };
const converted = { utf8: 0n, timestampMicros: 10n };
const encoding = { plain: 0n, plainDictionary: 2n, rle: 3n };
const page = { data: 0n, dictionary: 2n };
const uncompressed = 0n;
const optional = 1n;

const i32 = (id: number, value: bigint): ThriftField => ({ id, type: ThriftType.i32, value });
const i64 = (id: number, value: bigint): ThriftField => ({ id, type: ThriftType.i64, value });
const binary = (id: number, value: Buffer): ThriftField => ({ id, type: ThriftType.binary, value });
const struct = (id: number, value: ThriftStruct): ThriftField => ({ id, type: ThriftType.struct, value });
const list = (id: number, of: number, items: readonly ThriftValue[]): ThriftField => ({
  id,
  type: ThriftType.list,
  value: { of, items },
});

function schemaElement({ name, value }: ConstantColumn): ThriftStruct {
  const isText = typeof value === 'string';
  const inUtcAndMicros = struct(8, [{ id: 1, type: ThriftType.true, value: true }, struct(2, [struct(2, [])])]);
  return [
    i32(1, isText ? physical.byteArray : physical.int64),
    i32(3, optional),
    binary(4, Buffer.from(name)),
    i32(6, isText ? converted.utf8 : converted.timestampMicros),
    ...(isText ? [] : [struct(10, [inUtcAndMicros])]),
  ];
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(Math.floor(value / 0x80))];
}

/** The value, as statistics have it. */
function plainValue({ value }: ConstantColumn): Buffer {
  if (typeof value === 'string') return Buffer.from(value);
  const micros = Buffer.alloc(8);
  micros.writeBigInt64LE(BigInt(value.getTime()) * 1000n);
  return micros;
}

function lengthOf(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return length;
}

function pageOf(type: bigint, header: ThriftField, body: Buffer): Buffer {
  const size = BigInt(body.length);
  return Buffer.concat([writeStruct([i32(1, type), i32(2, size), i32(3, size), header]), body]);
}

/** A dictionary of the one value, and a page in which a single run says that each row has it. */
function pages(column: ConstantColumn, rows: number): readonly [dictionary: Buffer, data: Buffer] {
  const plain = plainValue(column);
  const entry = typeof column.value === 'string' ? Buffer.concat([lengthOf(plain), plain]) : plain;
  const run = varint(rows * 2);
  const present = Buffer.from([...run, 1]);
  const body = Buffer.concat([lengthOf(present), present, Buffer.from([1, ...run, 0])]);
  const inDictionary = [i32(1, 1n), i32(2, encoding.plainDictionary)];
  const inData = [i32(1, BigInt(rows)), i32(2, encoding.plainDictionary), i32(3, encoding.rle), i32(4, encoding.rle)];
  return [pageOf(page.dictionary, struct(7, inDictionary), entry), pageOf(page.data, struct(5, inData), body)];
}

/** The pages of a column in a row group, and their description. */
function columnChunk(column: ConstantColumn, rows: number, at: number): { bytes: Buffer; chunk: ThriftStruct } {
  const [dictionary, data] = pages(column, rows);
  const bytes = Buffer.concat([dictionary, data]);
  const plain = plainValue(column);
  const encodings = [encoding.plainDictionary, encoding.rle];
  const description = [
    i32(1, typeof column.value === 'string' ? physical.byteArray : physical.int64),
    list(2, ThriftType.i32, encodings),
    list(3, ThriftType.binary, [Buffer.from(column.name)]),
    i32(4, uncompressed),
    i64(5, BigInt(rows)),
    i64(6, BigInt(bytes.length)),
    i64(7, BigInt(bytes.length)),
    i64(9, BigInt(at + dictionary.length)),
    i64(11, BigInt(at)),
    struct(12, [i64(3, 0n), binary(5, plain), binary(6, plain)]),
  ];
  return { bytes, chunk: [i64(2, 0n), struct(3, description)] };
}

function changed(fields: ThriftStruct, changes: Readonly<Record<number, (value: ThriftValue) => ThriftValue>>) {
  return fields.map((field) => ({ ...field, value: changes[field.id]?.(field.value) ?? field.value }));
}

function structs(items: readonly ThriftStruct[]): ThriftValue {
  return { of: ThriftType.struct, items };
}

function itemsOf(value: ThriftValue): readonly ThriftValue[] {
  return (value as { items: readonly ThriftValue[] }).items;
}

/** The description of a column's pages that now lie further back. */
function movedBy(chunk: ThriftStruct, distance: bigint): ThriftStruct {
  const move = (value: ThriftValue) => (value as bigint) + distance;
  // 0 says that the file has no description of the pages beside this one.
  const moveUnlessNone = (value: ThriftValue) => (value === 0n ? value : move(value));
  const description = (value: ThriftValue) => changed(value as ThriftStruct, { 9: move, 10: move, 11: move, 14: move });
  return changed(chunk, { 2: moveUnlessNone, 3: description, 4: move, 6: move });
}

/** The constant columns of all row groups: their pages, which follow the magic number, and their descriptions. */
function constantChunks(columns: readonly ConstantColumn[], groups: readonly ThriftStruct[]) {
  const pages: Buffer[] = [];
  let at = magic.length;
  const chunks = groups.map((group) => {
    const rows = Number(group.find(({ id }) => id === 3)?.value);
    return columns.map((column) => {
      const { bytes, chunk } = columnChunk(column, rows, at);
      pages.push(bytes);
      at += bytes.length;
      return { chunk, bytes: BigInt(bytes.length) };
    });
  });
  return { pages: Buffer.concat(pages), chunks };
}

/**
 * Puts the constant columns before the others. Their pages come first in the file, too: some readers take the place of a row group's
 * first column for that of the row group, and would look for a row group behind the end of the file.
 */
function withConstants(footer: ThriftStruct, columns: readonly ConstantColumn[]) {
  const groups = itemsOf(footer.find(({ id }) => id === 4)?.value as ThriftValue) as ThriftStruct[];
  const { pages, chunks } = constantChunks(columns, groups);
  const distance = BigInt(pages.length);
  const stampedGroup = (group: ThriftStruct, index: number): ThriftStruct => {
    const own = chunks[index] ?? [];
    const added = own.reduce((sum, { bytes }) => sum + bytes, 0n);
    const more = (value: ThriftValue) => (value as bigint) + added;
    const others = (value: ThriftValue) => (itemsOf(value) as ThriftStruct[]).map((chunk) => movedBy(chunk, distance));
    const all = (value: ThriftValue) => structs([...own.map(({ chunk }) => chunk), ...others(value)]);
    const move = (value: ThriftValue) => (value as bigint) + distance;
    return changed(group, { 1: all, 2: more, 5: move, 6: more });
  };
  const stamped = changed(footer, {
    2: (value) => {
      const [root, ...others] = itemsOf(value) as [ThriftStruct, ...ThriftStruct[]];
      const children = changed(root, { 5: (count) => (count as bigint) + BigInt(columns.length) });
      return structs([children, ...columns.map(schemaElement), ...others]);
    },
    4: () => structs(groups.map(stampedGroup)),
    // How the values of each column are ordered: in the order of their type.
    7: (value) => structs([...columns.map(() => [struct(1, [])]), ...(itemsOf(value) as ThriftStruct[])]),
  });
  return { pages, footer: stamped };
}

/** @throws {RangeError} if the file is no Parquet file */
export async function readFooter(handle: FileHandle, size: number): Promise<{ footer: ThriftStruct; start: number }> {
  const tail = Buffer.alloc(8);
  await handle.read(tail, 0, 8, Math.max(0, size - 8));
  const start = size - 8 - tail.readUInt32LE(0);
  if (start < 4 || !tail.subarray(4).equals(magic)) throw new RangeError('this is no Parquet file');
  const bytes = Buffer.alloc(size - 8 - start);
  await handle.read(bytes, 0, bytes.length, start);
  return { footer: readStruct(bytes), start };
}

const copiedBytes = 1 << 20;

/** The bytes of a file between two places, piece by piece. A piece is overwritten by the next one. */
async function* piecesOf(from: FileHandle, start: number, end: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(copiedBytes, end - start));
  for (let at = start; at < end; ) {
    const { bytesRead } = await from.read(buffer, 0, Math.min(buffer.length, end - at), at);
    if (bytesRead === 0) throw new RangeError('the file is cut short');
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

/**
 * Copies a Parquet file and adds columns before its own that have one value in all rows. The pages of the others are copied as
 * they are, which takes a twentieth of the time that writing the rows again does. The copy is complete and durable once it has its name.
 * @throws {RangeError} if the source is no Parquet file
 */
export async function stampParquet(
  source: Pick<ParquetFile, 'path' | 'rows' | 'bytes'>,
  path: string,
  columns: readonly ConstantColumn[],
): Promise<ParquetFile> {
  const temporary = temporaryName(path);
  const from = await open(source.path, 'r');
  try {
    const { footer, start } = await readFooter(from, source.bytes);
    const stamped = withConstants(footer, columns);
    const description = writeStruct(stamped.footer);
    const to = await open(temporary, openFlags.replace, 0o600);
    const hash = createHash('sha256');
    const write = async (bytes: Buffer) => {
      hash.update(bytes);
      await to.writeFile(bytes);
    };
    try {
      await write(Buffer.concat([magic, stamped.pages]));
      for await (const piece of piecesOf(from, magic.length, start)) await write(piece);
      await write(Buffer.concat([description, lengthOf(description), magic]));
      await to.sync();
    } finally {
      await to.close();
    }
    await renameDurably(temporary, path);
    const bytes = start + stamped.pages.length + description.length + 8;
    return { path, rows: source.rows, bytes, sha256: hash.digest('hex') };
  } finally {
    await from.close();
  }
}

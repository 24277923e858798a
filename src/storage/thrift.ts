/*
 * Thrift's compact protocol, in which Parquet writes the description at the end of a file. Values are read with their types, so
 * that what this code does not know of is written again as it was.
 */

/** Types of the compact protocol. */
export const ThriftType = {
  true: 1,
  false: 2,
  i8: 3,
  i32: 5,
  i64: 6,
  double: 7,
  binary: 8,
  list: 9,
  set: 10,
  struct: 12,
} as const;

export type ThriftValue = bigint | boolean | Buffer | ThriftList | ThriftStruct;

export interface ThriftList {
  readonly of: number;
  readonly items: readonly ThriftValue[];
}

export interface ThriftField {
  readonly id: number;
  readonly type: number;
  readonly value: ThriftValue;
}

/** The fields of a structure, by rising ids. */
export type ThriftStruct = readonly ThriftField[];

class Reader {
  #at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  #take(length: number): Buffer {
    this.#at += length;
    if (length < 0 || this.#at > this.#bytes.length) throw new RangeError('the Thrift structure is cut short');
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  #byte(): number {
    return this.#take(1)[0] as number;
  }

  #varint(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  #integer(): bigint {
    const value = this.#varint();
    return (value >> 1n) ^ -(value & 1n);
  }

  struct(): ThriftStruct {
    const fields: ThriftField[] = [];
    for (let id = 0; ; ) {
      const head = this.#byte();
      if (head === 0) return fields;
      id = head >> 4 === 0 ? Number(this.#integer()) : id + (head >> 4);
      const type = head & 0x0f;
      const value = type <= ThriftType.false ? type === ThriftType.true : this.#value(type);
      fields.push({ id, type, value });
    }
  }

  #list(): ThriftList {
    const head = this.#byte();
    const size = head >> 4 === 15 ? Number(this.#varint()) : head >> 4;
    const of = head & 0x0f;
    return { of, items: Array.from({ length: size }, () => this.#value(of)) };
  }

  #value(type: number): ThriftValue {
    if (type === ThriftType.struct) return this.struct();
    if (type === ThriftType.list || type === ThriftType.set) return this.#list();
    if (type === ThriftType.binary) return this.#take(Number(this.#varint()));
    if (type === ThriftType.double) return this.#take(8);
    // In a list, a truth value is a byte.
    if (type <= ThriftType.i8) return this.#take(1);
    if (type <= ThriftType.i64) return this.#integer();
    throw new RangeError(`Thrift type ${type} is not known`);
  }
}

class Writer {
  readonly #chunks: Buffer[] = [];

  #varint(value: bigint): void {
    const bytes: number[] = [];
    let left = value;
    for (; left >= 0x80n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
    this.#chunks.push(Buffer.from([...bytes, Number(left)]));
  }

  #integer(value: bigint): void {
    this.#varint(value < 0n ? -2n * value - 1n : 2n * value);
  }

  struct(fields: ThriftStruct): void {
    let last = 0;
    for (const { id, type, value } of fields) {
      const step = id - last;
      this.#chunks.push(Buffer.from([step > 0 && step < 16 ? (step << 4) | type : type]));
      if (step <= 0 || step > 15) this.#integer(BigInt(id));
      last = id;
      if (type > ThriftType.false) this.#value(type, value);
    }
    this.#chunks.push(Buffer.of(0));
  }

  #list({ of, items }: ThriftList): void {
    this.#chunks.push(Buffer.of((Math.min(items.length, 15) << 4) | of));
    if (items.length >= 15) this.#varint(BigInt(items.length));
    for (const item of items) this.#value(of, item);
  }

  #value(type: number, value: ThriftValue): void {
    if (type === ThriftType.struct) this.struct(value as ThriftStruct);
    else if (type === ThriftType.list || type === ThriftType.set) this.#list(value as ThriftList);
    else if (typeof value === 'bigint') this.#integer(value);
    else {
      if (type === ThriftType.binary) this.#varint(BigInt((value as Buffer).length));
      this.#chunks.push(value as Buffer);
    }
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

/** @throws {RangeError} if the bytes are no structure, or one with maps */
export function readStruct(bytes: Buffer): ThriftStruct {
  return new Reader(bytes).struct();
}

export function writeStruct(struct: ThriftStruct): Buffer {
  const writer = new Writer();
  writer.struct(struct);
  return writer.bytes;
}

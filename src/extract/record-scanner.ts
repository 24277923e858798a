import { emptyShape, Kind } from '../core/column-shape.js';
import type { ColumnSet } from '../core/columns.js';
import { numberKind, parseExact } from './exact-json.js';
import { matchesFilter, spooled } from './exact-record.js';
import { textColumns } from './exact-scanner.js';
import {
  falseWord,
  nullWord,
  skipFraction,
  skipInteger,
  skipPlainString,
  skipSpace,
  skipString,
  skipWord,
  trueWord,
} from './json-bytes.js';
import { MalformedPageError, repairUtf8, takeExactly } from './page-text.js';
import { hashKey, PageBuilder, type PageScanner, type ScannedPage, type ScanOptions } from './scanned-page.js';
import { Slot, Slots } from './slots.js';

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
/** Nested deeper than this a record takes the slow path. */
const maxFastDepth = 24;
/** Text of so many digits is surely a safe integer. */
const safeDigits = 15;
const empty = Buffer.alloc(0);

/**
 * The fast path: walks once over the bytes of a page and makes no value of them. It checks all of JSON's grammar, takes note
 * of the kind of every value in the columns, and patches what DuckDB could not read as it stands. A record with anything
 * unusual in it is taken over the slow path, which gives the same.
 *
 * Objects of one place mostly have the same members in the same order, so the next name is guessed and compared, not read.
 */
export class RecordScanner implements PageScanner {
  readonly #columns: ColumnSet;
  readonly #options: ScanOptions;
  readonly #envelope: Slots;
  readonly #attributes: Slots;
  #bytes: Buffer = empty;
  #builder = new PageBuilder(empty);
  /** Of the columns when the slots were last looked over. */
  #version = -1;
  /** Of the object that was entered last. */
  #serial = 0;
  #depth = 0;
  /** The record has something that the slow path must look at. */
  #odd = false;
  /** A shape has grown since it was last told. */
  #grown = false;
  #keys = 0;
  #hash1 = 0;
  #hash2 = 0;
  #mismatch: string | null = null;

  constructor(columns: ColumnSet, options: ScanOptions) {
    this.#columns = columns;
    this.#options = options;
    this.#envelope = Slots.ofColumns(columns, 'envelope');
    this.#attributes = Slots.ofColumns(columns, 'attribute');
  }

  scan(given: Buffer, from: number, to: number): ScannedPage {
    const page = repairUtf8(given, from, to);
    const before = textColumns(this.#columns);
    const scanned = this.#pass(page.body, page.start, page.end);
    const final = textColumns(this.#columns) === before ? scanned : this.#pass(page.body, page.start, page.end);
    this.#bytes = empty;
    return page.repaired ? { ...final, replacedSurrogates: Math.max(1, final.replacedSurrogates) } : final;
  }

  #pass(body: Buffer, start: number, end: number): ScannedPage {
    this.#bytes = body;
    const builder = new PageBuilder(body);
    this.#builder = builder;
    this.#refresh();
    let at = skipSpace(body, start);
    for (let position = 0; at < end; position += 1) {
      at = skipSpace(body, this.#record(at, position));
      if (at === end) break;
      if (at > end || body[at] !== comma) throw new MalformedPageError('a comma between two records');
      at = skipSpace(body, at + 1);
      if (at >= end) throw new MalformedPageError('a record behind a comma');
    }
    return builder.build();
  }

  /** Other scanners of the same stream may have moved the columns. */
  #refresh(): void {
    if (this.#columns.version === this.#version) return;
    this.#envelope.refresh();
    this.#attributes.refresh();
    this.#version = this.#columns.version;
  }

  #record(at: number, position: number): number {
    const { key } = this.#options;
    this.#odd = this.#bytes[at] !== openBrace;
    this.#keys = 0;
    this.#hash1 = 0;
    this.#hash2 = 1;
    this.#mismatch = null;
    this.#depth = 0;
    const end = this.#odd ? at : this.#members(this.#envelope, at + 1);
    if (this.#odd || end < 0 || this.#keys !== key.length) {
      // The slow path also tells what is no JSON at all from what is only unusual.
      this.#builder.forget();
      const after = takeExactly(this.#bytes, at, position, this.#builder, this.#columns, this.#options);
      this.#refresh();
      return after;
    }
    this.#builder.keep(at, end, this.#hash1, this.#hash2);
    if (this.#mismatch !== null) {
      this.#builder.mismatches += 1;
      this.#builder.mismatchedAttribute ??= this.#mismatch;
    }
    return end;
  }

  /** Walks over an object's members; `at` is behind its brace. Returns the place behind the other one, or a negative. */
  #members(slots: Slots, at: number): number {
    const bytes = this.#bytes;
    this.#serial += 1;
    const serial = this.#serial;
    let position = skipSpace(bytes, at);
    if (bytes[position] === closeBrace) return position + 1;
    let next = 0;
    for (;;) {
      if (bytes[position] !== quote) return -1;
      const guessed = slots.expected(bytes, position, next);
      const slot = guessed ?? this.#lookUp(slots, position);
      if (slot === undefined) return -1;
      const nameEnd = guessed === undefined ? skipString(bytes, position + 1) : position + slot.raw.length;
      next = slot.index + 1;
      if (slot.stamp === serial) this.#odd = true;
      slot.stamp = serial;
      let from = nameEnd;
      if (bytes[from] !== colon) {
        from = skipSpace(bytes, from);
        if (bytes[from] !== colon) return -1;
      }
      from = skipSpace(bytes, from + 1);
      const end = slot.isContainer ? this.#container(from) : this.#value(slot, from);
      if (this.#grown) this.#reshape(slot);
      if (end < 0 || this.#odd) return -1;
      if (slot.special || slot.isKey) this.#settle(slot, position, nameEnd, from, end);
      position = end;
      let byte = bytes[position];
      if (byte !== comma && byte !== closeBrace) {
        position = skipSpace(bytes, position);
        byte = bytes[position];
      }
      if (byte === closeBrace) return position + 1;
      if (byte !== comma) return -1;
      position = skipSpace(bytes, position + 1);
    }
  }

  /** The slot of a name that was not guessed; a new one where the name is new. */
  #lookUp(slots: Slots, at: number): Slot | undefined {
    const end = skipString(this.#bytes, at + 1);
    if (end < 0) return undefined;
    const raw = this.#bytes.subarray(at, end);
    const name = JSON.parse(raw.toString('utf8')) as string;
    if (!name.isWellFormed()) {
      this.#odd = true;
      return undefined;
    }
    const known = slots.byName(name);
    if (known !== undefined) return known;
    const { container, key, filter } = this.#options;
    const isRecord = slots === this.#envelope;
    if (isRecord && name === container) return this.#containerSlot(slots, name, raw);
    const judged = container === null ? isRecord : slots === this.#attributes;
    const slot = slots.add(name, raw, judged ? filter.get(name) : undefined);
    slot.isKey = isRecord && key.includes(name);
    // A new member of a struct changes the type of its column.
    if (slot.column === undefined) this.#grown = true;
    return slot;
  }

  #containerSlot(slots: Slots, name: string, raw: Uint8Array): Slot {
    const slot = new Slot(Uint8Array.from(raw), slots.list.length, emptyShape(), undefined);
    slot.isContainer = true;
    slots.adopt(name, slot);
    return slot;
  }

  /** The member that holds the attributes: an object, a list of one object, or nothing. */
  #container(at: number): number {
    const bytes = this.#bytes;
    if (bytes[at] === openBrace) return this.#members(this.#attributes, at + 1);
    if (bytes[at] === 0x6e) return skipWord(bytes, at, nullWord);
    const inside = skipSpace(bytes, at + 1);
    if (bytes[at] !== openBracket || bytes[inside] !== openBrace) {
      this.#odd = true;
      return -1;
    }
    this.#builder.patch(at, inside, empty);
    const end = this.#members(this.#attributes, inside + 1);
    if (end < 0) return -1;
    const close = skipSpace(bytes, end);
    if (bytes[close] !== closeBracket) {
      this.#odd = true;
      return -1;
    }
    this.#builder.patch(end, close + 1, empty);
    return close + 1;
  }

  /** Walks over a value and notes its kind. */
  #value(slot: Slot, at: number): number {
    const bytes = this.#bytes;
    const byte = bytes[at] as number;
    if (byte === quote) {
      this.#note(slot, Kind.string);
      const end = skipPlainString(bytes, at + 1);
      return end < -1 ? this.#escaped(at, -2 - end) : end;
    }
    if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) return this.#number(slot, at);
    if (byte === 0x6e) return skipWord(bytes, at, nullWord);
    if (byte === openBrace) return this.#struct(slot, at);
    if (byte === openBracket) return this.#list(slot, at);
    this.#note(slot, Kind.boolean);
    if (byte === 0x74) return skipWord(bytes, at, trueWord);
    return byte === 0x66 ? skipWord(bytes, at, falseWord) : -1;
  }

  #note(slot: Slot, kind: number): void {
    if ((slot.shape.kinds & kind) !== 0) return;
    slot.shape.kinds |= kind;
    this.#grown = true;
  }

  /** A string with escapes: only those of surrogates can name what UTF-8 cannot hold. */
  #escaped(at: number, firstEscape: number): number {
    const end = skipString(this.#bytes, firstEscape);
    if (end < 0) return -1;
    const text = this.#bytes.toString('latin1', firstEscape, end);
    if (/\\u[dD]/.test(text) && !(JSON.parse(this.#bytes.toString('utf8', at, end)) as string).isWellFormed())
      this.#odd = true;
    return end;
  }

  #number(slot: Slot, at: number): number {
    const bytes = this.#bytes;
    const whole = skipInteger(bytes, at);
    if (whole < 0) return -1;
    const byte = bytes[whole];
    if (byte !== 0x2e && byte !== 0x65 && byte !== 0x45) {
      this.#note(slot, whole - at <= safeDigits ? Kind.safeInteger : numberKind(bytes.toString('latin1', at, whole)));
      return whole;
    }
    const end = skipFraction(bytes, whole);
    if (end < 0) return -1;
    // Without an exponent only hundreds of digits go beyond a double.
    const plain = byte === 0x2e && end - at < 300 && !this.#hasExponent(whole, end);
    this.#note(slot, plain ? Kind.double : numberKind(bytes.toString('latin1', at, end)));
    return end;
  }

  #hasExponent(from: number, to: number): boolean {
    for (let index = from; index < to; index += 1) if (((this.#bytes[index] as number) | 0x20) === 0x65) return true;
    return false;
  }

  #struct(slot: Slot, at: number): number {
    if (!this.#enter()) return -1;
    this.#note(slot, Kind.struct);
    slot.fields ??= Slots.ofFields(slot.shape);
    const end = this.#members(slot.fields, at + 1);
    this.#depth -= 1;
    return end;
  }

  #list(slot: Slot, at: number): number {
    const bytes = this.#bytes;
    if (!this.#enter()) return -1;
    this.#note(slot, Kind.list);
    if (slot.element === undefined) {
      slot.shape.element ??= emptyShape();
      slot.element = new Slot(empty, 0, slot.shape.element, undefined);
    }
    const { element } = slot;
    let position = skipSpace(bytes, at + 1);
    if (bytes[position] === closeBracket) {
      this.#depth -= 1;
      return position + 1;
    }
    for (;;) {
      position = this.#value(element, position);
      if (position < 0) return -1;
      position = skipSpace(bytes, position);
      const byte = bytes[position];
      if (byte === closeBracket) break;
      if (byte !== comma) return -1;
      position = skipSpace(bytes, position + 1);
    }
    this.#depth -= 1;
    return position + 1;
  }

  #enter(): boolean {
    this.#depth += 1;
    if (this.#depth <= maxFastDepth) return true;
    this.#odd = true;
    return false;
  }

  /** Tells the columns, also where the record takes the slow path after all, which would see no news any more. */
  #reshape(slot: Slot): void {
    if (slot.column === undefined) return;
    this.#grown = false;
    this.#columns.reshaped(slot.column);
    slot.refresh();
  }

  /** What is to be done about a column's value once its end is known. */
  #settle(slot: Slot, nameFrom: number, nameTo: number, from: number, to: number): void {
    if (slot.isKey) this.#key(from, to);
    if (!slot.special) return;
    if (slot.renamed !== undefined) this.#builder.patch(nameFrom, nameTo, slot.renamed);
    if (slot.wanted !== undefined && !this.#matches(slot, slot.wanted, from, to)) {
      this.#mismatch ??= slot.column?.field ?? null;
    }
    if (!slot.asText || slot.column === undefined || this.#bytes[from] === 0x6e) return;
    const isText = this.#bytes[from] === quote;
    if (slot.column.type !== 'JSON' && isText) return;
    this.#builder.patch(from, to, Buffer.from(spooled(this.#parsed(from, to), slot.column)));
  }

  #matches(slot: Slot, wanted: string, from: number, to: number): boolean {
    const raw = slot.wantedRaw;
    if (raw !== undefined && to - from === raw.length) {
      let index = 0;
      while (index < raw.length && this.#bytes[from + index] === raw[index]) index += 1;
      if (index === raw.length) return true;
    }
    return matchesFilter(this.#parsed(from, to), wanted);
  }

  #parsed(from: number, to: number) {
    return parseExact(this.#bytes.toString('utf8', from, to));
  }

  /** A key is a text, not empty; one with escapes takes the slow path, which gives its hash as of any other. */
  #key(from: number, to: number): void {
    const bytes = this.#bytes;
    if (bytes[from] !== quote || to - from < 3 || bytes.subarray(from, to).includes(0x5c)) {
      this.#odd = true;
      return;
    }
    this.#keys += 1;
    this.#hash1 = hashKey(bytes, from + 1, to - 1, this.#hash1);
    this.#hash2 = hashKey(bytes, from + 1, to - 1, this.#hash2);
  }
}

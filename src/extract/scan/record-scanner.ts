import { isUtf8 } from 'node:buffer';
import { emptyShape, Kind } from '../../columns/column-shape.js';
import type { Column, ColumnSet } from '../../columns/columns.js';
import { jsonBytes } from './bytes.js';
import { hasLoneSurrogate, numberKind, parseExact } from './exact-json.js';
import { matchesFilter, stagedValue } from './exact-record.js';
import { takeExactly } from './exact-scanner.js';
import {
  falseWord,
  hasExponent,
  nullWord,
  skipFraction,
  skipInteger,
  skipPlainString,
  skipSpace,
  skipString,
  skipValue,
  skipWord,
  trueWord,
} from './json-bytes.js';
import {
  hashKey,
  MalformedPageError,
  PageBuilder,
  type PageScanner,
  type ScannedPage,
  type ScanOptions,
} from './scanned-page.js';
import { Slot, Slots } from './slots.js';
import { becameJson, decodePlainText, jsonColumns } from './text-column.js';

const {
  backslash,
  capitalE,
  closeBrace,
  closeBracket,
  colon,
  comma,
  letterE,
  letterF,
  letterN,
  letterT,
  minus,
  nine,
  openBrace,
  openBracket,
  point,
  quote,
  zero,
} = jsonBytes;
/** Records nested deeper than this take the slow path. */
const maxFastDepth = 24;
/** An integer with at most this many characters is always a safe integer. */
const safeDigits = 15;
const empty = Buffer.alloc(0);
/** In place of the container and its brace: its members become members of the record. No column has the empty name. */
const opened = Buffer.from('"":null,');
const openedEmpty = Buffer.from('"":null');

/**
 * The fast path: walks once over the bytes of a page without parsing values. It checks all of JSON's grammar, checks that the
 * columns know every kind of value, and patches values that DuckDB could not read as they are. A record with anything new or
 * unusual takes the slow path. Only the slow path changes the columns, so both paths give the same result.
 *
 * Objects at one place mostly have the same members in the same order, so the next name is guessed and compared, not read.
 * In this class, a negative position means that the record must take the slow path, for whatever reason.
 */
export class RecordScanner implements PageScanner {
  readonly #columns: ColumnSet;
  readonly #options: ScanOptions;
  readonly #envelope: Slots;
  readonly #attributes: Slots;
  #bytes: Buffer = empty;
  #view: DataView = new DataView(empty.buffer);
  #builder = new PageBuilder(empty);
  /** Whether all of the page is UTF-8; otherwise each record is looked at alone. */
  #isUtf8 = true;
  /** Version of the columns at the last refresh of the slots. */
  #version = -1;
  #texts: ReadonlySet<Column> = new Set();
  /** Serial number of the object entered last. */
  #serial = 0;
  #depth = 0;
  /** Position of the container's name in the record being scanned. */
  #containerFrom = 0;
  /** Position after the name looked up last. */
  #nameEnd = 0;
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

  scan(body: Buffer, start: number, end: number): ScannedPage {
    this.#isUtf8 = isUtf8(body.subarray(start, end));
    this.#refresh();
    const before = this.#texts;
    const scanned = this.#pass(body, start, end);
    // If a column became JSON inside this page, a second pass writes the earlier records as text too.
    const again = before !== this.#texts && becameJson(this.#columns, before);
    const final = again ? this.#pass(body, start, end) : scanned;
    this.#bytes = empty;
    return final;
  }

  #pass(body: Buffer, start: number, end: number): ScannedPage {
    this.#bytes = body;
    this.#view = new DataView(body.buffer, body.byteOffset, body.length);
    const builder = new PageBuilder(body);
    this.#builder = builder;
    let at = skipSpace(body, start);
    for (let position = 0; at < end; position += 1) {
      at = skipSpace(body, this.#record(at, position));
      if (at === end) break;
      if (at > end || body[at] !== comma) throw new MalformedPageError('a comma between two records');
      at = skipSpace(body, at + 1);
      if (at >= end) throw new MalformedPageError('a record after a comma');
    }
    return builder.build();
  }

  /** Other scanners of the same stream may have changed the columns too. */
  #refresh(): void {
    if (this.#columns.version === this.#version) return;
    this.#envelope.refresh();
    this.#attributes.refresh();
    this.#texts = jsonColumns(this.#columns);
    this.#version = this.#columns.version;
  }

  #record(at: number, position: number): number {
    this.#keys = 0;
    this.#hash1 = 0;
    this.#hash2 = 1;
    this.#mismatch = null;
    this.#depth = 0;
    const end = this.#bytes[at] === openBrace ? this.#members(this.#envelope, at + 1) : -1;
    const isFast = end >= 0 && this.#keys === this.#options.key.length;
    if (!isFast || (!this.#isUtf8 && !isUtf8(this.#bytes.subarray(at, end)))) {
      // The slow path also distinguishes malformed records from unusual ones.
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

  /** Walks over an object's members; `at` is the position after its opening brace. Returns the position after its closing one. */
  #members(slots: Slots, at: number): number {
    const bytes = this.#bytes;
    const view = this.#view;
    this.#serial += 1;
    const serial = this.#serial;
    let position = skipSpace(bytes, at);
    if (bytes[position] === closeBrace) return position + 1;
    let next = 0;
    for (;;) {
      if (bytes[position] !== quote) return -1;
      let slot = slots.expected(view, position, next);
      let from: number;
      if (slot === undefined) {
        slot = this.#lookUp(slots, position);
        if (slot === undefined) return -1;
        from = skipSpace(bytes, this.#nameEnd);
        if (bytes[from] !== colon) return -1;
        from += 1;
      } else from = position + slot.label.length;
      // The name is repeated.
      if (slot.stamp === serial) return -1;
      slot.stamp = serial;
      next = slot.index + 1;
      let byte = bytes[from] as number;
      if (byte <= 0x20) {
        from = skipSpace(bytes, from);
        byte = bytes[from] as number;
      }
      if (slot.isContainer) this.#containerFrom = position;
      const end = byte === quote ? this.#string(slot, view, from) : this.#value(slot, from, byte);
      if (end < 0 || (slot.needsExactPath && !this.#settle(slot, position, from, end))) return -1;
      position = end;
      byte = bytes[position] as number;
      if (byte !== comma && byte !== closeBrace) {
        position = skipSpace(bytes, position);
        byte = bytes[position] as number;
      }
      if (byte === closeBrace) return position + 1;
      if (byte !== comma) return -1;
      position += 1;
      if (bytes[position] !== quote) position = skipSpace(bytes, position);
    }
  }

  /** The slot of a name that was not guessed; undefined if the columns do not know the name. */
  #lookUp(slots: Slots, at: number): Slot | undefined {
    const bytes = this.#bytes;
    const slot = slots.byBytes(bytes, at);
    if (slot !== undefined) {
      this.#nameEnd = at + slot.label.length - 1;
      return slot;
    }
    const end = skipString(bytes, at + 1);
    if (end < 0) return undefined;
    this.#nameEnd = end;
    const raw = bytes.subarray(at, end);
    const name = JSON.parse(raw.toString('utf8')) as string;
    return name.isWellFormed() ? (slots.byName(name) ?? this.#newSlot(slots, name, raw)) : undefined;
  }

  #newSlot(slots: Slots, name: string, raw: Uint8Array): Slot | undefined {
    const { container, key, filter } = this.#options;
    const isRecord = slots === this.#envelope;
    if (isRecord && name === container) {
      const slot = slots.add(name, raw, { shape: emptyShape(), column: undefined });
      slot.isContainer = true;
      return slot;
    }
    const known = slots.find(name);
    if (known === undefined) return undefined;
    const slot = slots.add(name, raw, known);
    slot.isKey = isRecord && key.includes(name);
    const isFiltered = container === null ? isRecord : slots === this.#attributes;
    slot.wanted = isFiltered ? filter.get(name) : undefined;
    slot.wantedRaw = slot.wanted === undefined ? undefined : Buffer.from(JSON.stringify(slot.wanted));
    slot.refresh();
    return slot;
  }

  #string(slot: Slot, view: DataView, at: number): number {
    if ((slot.shape.kinds & Kind.string) === 0) return -1;
    const end = skipPlainString(this.#bytes, view, at + 1);
    const { textCheck } = slot;
    if (textCheck !== undefined) return end >= 0 && textCheck(this.#bytes, at + 1, end - 1) ? end : -1;
    return end < -1 ? this.#escaped(at, -2 - end) : end;
  }

  /** Walks over a value that is not a string. */
  #value(slot: Slot, at: number, byte: number): number {
    if (byte <= nine) return this.#number(slot, at);
    const bytes = this.#bytes;
    if (byte === letterN) return skipWord(bytes, at, nullWord);
    if (byte === openBrace || byte === openBracket) return this.#nested(slot, at, byte);
    if ((slot.shape.kinds & Kind.boolean) === 0) return -1;
    if (byte === letterT) return skipWord(bytes, at, trueWord);
    return byte === letterF ? skipWord(bytes, at, falseWord) : -1;
  }

  /** A string with escapes. Only an escaped surrogate can be something that UTF-8 cannot encode. */
  #escaped(at: number, firstEscape: number): number {
    const end = skipString(this.#bytes, firstEscape);
    if (end < 0) return -1;
    const text = this.#bytes.toString('latin1', firstEscape, end);
    if (!/\\u[dD]/.test(text)) return end;
    return (JSON.parse(this.#bytes.toString('utf8', at, end)) as string).isWellFormed() ? end : -1;
  }

  #number(slot: Slot, at: number): number {
    const bytes = this.#bytes;
    const whole = skipInteger(bytes, at);
    if (whole < 0) return -1;
    const byte = bytes[whole];
    let kind: number = Kind.safeInteger;
    let end = whole;
    if (byte === point || byte === letterE || byte === capitalE) {
      end = skipFraction(bytes, whole);
      if (end < 0) return -1;
      // Without an exponent, only a number with hundreds of digits exceeds a double, or is too close to zero for one.
      const maybeZero = bytes[whole - 1] === zero && bytes[at] === minus && whole - at === 2;
      const isPlain = byte === point && !maybeZero && end - at < 300 && !hasExponent(bytes, whole, end);
      kind = isPlain ? Kind.double : numberKind(bytes.toString('latin1', at, end));
    } else if (whole - at > safeDigits) kind = numberKind(bytes.toString('latin1', at, whole));
    return (slot.shape.kinds & kind) === kind ? end : -1;
  }

  #nested(slot: Slot, at: number, byte: number): number {
    if (slot.acceptsAnyJson) return this.#anyValue(at);
    this.#depth += 1;
    if (this.#depth > maxFastDepth) return -1;
    let end: number;
    if (slot.isContainer) end = byte === openBrace ? this.#flattened(at) : this.#unwrapped(at);
    else end = byte === openBrace ? this.#struct(slot, at) : this.#list(slot, at);
    this.#depth -= 1;
    return end;
  }

  /** Walks over a value whose text alone matters. */
  #anyValue(at: number): number {
    const { end, depth } = skipValue(this.#bytes, at);
    return depth > maxFastDepth ? -1 : end;
  }

  /** Attributes in a list of one object. */
  #unwrapped(at: number): number {
    const bytes = this.#bytes;
    const inside = skipSpace(bytes, at + 1);
    if (bytes[inside] !== openBrace) return -1;
    const end = this.#flattened(inside);
    if (end < 0) return -1;
    const close = skipSpace(bytes, end);
    if (bytes[close] !== closeBracket) return -1;
    this.#builder.patch(end, close + 1, empty);
    return close + 1;
  }

  /**
   * Attributes, whose opening brace is at `at`. In the staging file they are beside the fields of the record: DuckDB needs memory for
   * the square of a struct's fields to take it apart.
   */
  #flattened(at: number): number {
    const isEmpty = this.#bytes[skipSpace(this.#bytes, at + 1)] === closeBrace;
    this.#builder.patch(this.#containerFrom, at + 1, isEmpty ? openedEmpty : opened);
    const end = this.#members(this.#attributes, at + 1);
    if (end >= 0) this.#builder.patch(end - 1, end, empty);
    return end;
  }

  #struct(slot: Slot, at: number): number {
    if ((slot.shape.kinds & Kind.struct) === 0) return -1;
    slot.fields ??= Slots.ofFields(slot.shape);
    return this.#members(slot.fields, at + 1);
  }

  #list(slot: Slot, at: number): number {
    const { shape } = slot;
    if ((shape.kinds & Kind.list) === 0 || shape.element === undefined) return -1;
    slot.element ??= new Slot(empty, 0, shape.element, undefined);
    const bytes = this.#bytes;
    let position = skipSpace(bytes, at + 1);
    if (bytes[position] === closeBracket) return position + 1;
    for (;;) {
      const byte = bytes[position] as number;
      position =
        byte === quote ? this.#string(slot.element, this.#view, position) : this.#value(slot.element, position, byte);
      if (position < 0) return -1;
      position = skipSpace(bytes, position);
      if (bytes[position] === closeBracket) return position + 1;
      if (bytes[position] !== comma) return -1;
      position = skipSpace(bytes, position + 1);
    }
  }

  /** Finishes a column's value whose end is known; false if the slow path must do it. */
  #settle(slot: Slot, nameFrom: number, from: number, to: number): boolean {
    const { column } = slot;
    if (column === undefined || (slot.isKey && !this.#key(from, to))) return false;
    if (slot.renamed !== undefined) {
      this.#builder.patch(nameFrom, skipString(this.#bytes, nameFrom + 1), slot.renamed);
    }
    if (slot.wanted !== undefined) this.#match(slot, slot.wanted, column.field, from, to);
    const first = this.#bytes[from];
    if (!slot.asText || first === letterN || (first === quote && column.type !== 'JSON')) return true;
    const plain = decodePlainText(this.#bytes, from, to);
    if (plain !== undefined) {
      this.#builder.patch(from, to, plain);
      return true;
    }
    const value = parseExact(this.#bytes.toString('utf8', from, to));
    if (hasLoneSurrogate(value)) return false;
    this.#builder.patch(from, to, Buffer.from(stagedValue(value, column, slot.acceptsAnyJson)));
    return true;
  }

  #match(slot: Slot, wanted: string, attribute: string, from: number, to: number): void {
    if (this.#bytes[from] !== letterN) this.#builder.evaluated.add(attribute);
    if (!this.#matches(slot, wanted, from, to)) this.#mismatch ??= attribute;
  }

  #matches(slot: Slot, wanted: string, from: number, to: number): boolean {
    const raw = slot.wantedRaw;
    if (raw !== undefined && to - from === raw.length) {
      let index = 0;
      while (index < raw.length && this.#bytes[from + index] === raw[index]) index += 1;
      if (index === raw.length) return true;
    }
    return matchesFilter(parseExact(this.#bytes.toString('utf8', from, to)), wanted);
  }

  /** Hashes a key; false if it is not a text, or is empty. A key with escapes takes the slow path, which hashes its unescaped text. */
  #key(from: number, to: number): boolean {
    const bytes = this.#bytes;
    if (bytes[from] !== quote || to - from < 3) return false;
    for (let index = from; index < to; index += 1) if (bytes[index] === backslash) return false;
    this.#keys += 1;
    this.#hash1 = hashKey(bytes, from + 1, to - 1, this.#hash1);
    this.#hash2 = hashKey(bytes, from + 1, to - 1, this.#hash2);
    return true;
  }
}

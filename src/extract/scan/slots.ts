import { Kind, type Shape } from '../../columns/column-shape.js';
import type { Column, ColumnOrigin, ColumnSet } from '../../columns/columns.js';
import { textCheckOf } from '../../columns/text-format.js';
import { jsonBytes } from './bytes.js';
import { staysJson } from './text-column.js';

const { quote } = jsonBytes;
/** How many slots, from the expected one on, to compare before a name is looked up. */
const ahead = 2;

/** The shape for values that need no check: it has every kind. */
const anything: Shape = { kinds: Object.values(Kind).reduce((kinds, kind) => kinds | kind, 0) };

/** A known member of the objects at one place. */
export class Slot {
  readonly index: number;
  readonly column: Column | undefined;
  /** The shape of its values so far; every kind for a column that stays JSON. */
  shape: Shape;
  /** The name as in the body, with its quotes and the colon after it. */
  readonly label: Uint8Array;
  /** The label in words of four bytes. The last word overlaps the one before unless the length is a multiple of four. */
  readonly words: Int32Array;
  /** Serial number of the last object with this member. If the same object has it again, the name is repeated. */
  stamp = 0;
  /** The slots of a struct's fields. */
  fields: Slots | undefined;
  /** The slot of a list's items. */
  element: Slot | undefined;
  /** Whether its own members become columns. */
  isContainer = false;
  isKey = false;
  /** Its value in the filter. */
  wanted: string | undefined;
  /** The same as JSON: almost every value has these bytes. */
  wantedRaw: Buffer | undefined;
  /** The column's name as JSON, if it differs from the member's. */
  renamed: Buffer | undefined;
  /** Whether its values go into the staging file as text. */
  asText = false;
  /** Whether its column stays JSON, so that the kinds of its values do not matter. */
  acceptsAnyJson = false;
  /** Whether a text is like those before; undefined: any text will do. */
  textCheck: ReturnType<typeof textCheckOf>;
  /** Whether a value needs more than a check of its kind. */
  needsExactPath = false;

  /** @param name the name as in the body, with its quotes */
  constructor(name: Uint8Array, index: number, shape: Shape, column: Column | undefined) {
    this.index = index;
    this.shape = shape;
    this.column = column;
    this.label = Buffer.concat([name, Buffer.from(':')]);
    const view = new DataView(this.label.buffer, this.label.byteOffset, this.label.length);
    const { length } = this.label;
    this.words = new Int32Array(length < 4 ? 0 : Math.ceil(length / 4));
    for (let word = 0; word < this.words.length; word += 1) {
      this.words[word] = view.getInt32(Math.min(word * 4, length - 4), true);
    }
  }

  /** Call it whenever the columns may have changed. */
  refresh(): void {
    const { column } = this;
    if (column === undefined) return;
    const { type, declared, name, field } = column;
    this.renamed = name === field ? undefined : Buffer.from(JSON.stringify(name));
    this.asText = type === 'JSON' || declared !== undefined;
    this.acceptsAnyJson = staysJson(column);
    this.shape = this.acceptsAnyJson ? anything : column.shape;
    this.textCheck = column.infersFormat && !this.acceptsAnyJson ? textCheckOf(column.text) : undefined;
    this.needsExactPath = this.asText || this.isKey || this.renamed !== undefined || this.wanted !== undefined;
  }
}

/** One name: the shape of its values, and its column if it has one. */
type Known = { readonly shape: Shape; readonly column: Column | undefined };

/** The known members of the objects at one place, in the order in which they first appeared. Most objects keep that order. */
export class Slots {
  readonly #list: Slot[] = [];
  readonly #byName = new Map<string, Slot>();
  readonly #find: (name: string) => Known | undefined;
  /** A hash table with open addressing, by the bytes of a name. An entry is a slot's index plus 1, or 0. At most half full. */
  #table = new Int32Array(64);

  private constructor(find: (name: string) => Known | undefined) {
    this.#find = find;
  }

  static ofColumns(columns: ColumnSet, place: ColumnOrigin): Slots {
    return new Slots((name) => {
      const column = columns.get(place, name);
      return column === undefined ? undefined : { column, shape: column.shape };
    });
  }

  static ofFields(struct: Shape): Slots {
    return new Slots((name) => {
      const shape = struct.fields?.get(name);
      return shape === undefined ? undefined : { column: undefined, shape };
    });
  }

  /** The slot whose name and colon are at `at`, if it is one of the next expected ones. */
  expected(view: DataView, at: number, from: number): Slot | undefined {
    const list = this.#list;
    const last = Math.min(list.length, from + ahead);
    next: for (let index = from; index < last; index += 1) {
      const slot = list[index] as Slot;
      const { words } = slot;
      const length = slot.label.length;
      const count = words.length;
      if (count === 0 || at + length > view.byteLength) continue;
      for (let word = 0; word < count - 1; word += 1) {
        if (view.getInt32(at + word * 4, true) !== words[word]) continue next;
      }
      if (view.getInt32(at + length - 4, true) === words[count - 1]) return slot;
    }
    return undefined;
  }

  /** The slot whose name is at `at`, by its bytes; undefined if the name is escaped in another way than at first. */
  byBytes(bytes: Uint8Array, at: number): Slot | undefined {
    const table = this.#table;
    const mask = table.length - 1;
    let place = hashName(bytes, at) & mask;
    for (;;) {
      const entry = table[place] as number;
      if (entry === 0) return undefined;
      const slot = this.#list[entry - 1] as Slot;
      if (startsWith(bytes, at, slot.label, slot.label.length - 1)) return slot;
      place = (place + 1) & mask;
    }
  }

  byName(name: string): Slot | undefined {
    return this.#byName.get(name);
  }

  /** Finds a name that has no slot yet in the columns or the shape. */
  find(name: string): Known | undefined {
    return this.#find(name);
  }

  /** Adds a slot for a name; `raw` is the name as in the body. */
  add(name: string, raw: Uint8Array, { shape, column }: Known): Slot {
    const slot = new Slot(raw, this.#list.length, shape, column);
    this.#list.push(slot);
    this.#byName.set(name, slot);
    if (this.#list.length * 2 > this.#table.length) this.#table = new Int32Array(this.#table.length * 2);
    else return this.#enter(slot);
    for (const slot of this.#list) this.#enter(slot);
    return slot;
  }

  refresh(): void {
    for (const slot of this.#list) slot.refresh();
  }

  #enter(slot: Slot): Slot {
    const mask = this.#table.length - 1;
    let place = hashName(slot.label, 0) & mask;
    while (this.#table[place] !== 0) place = (place + 1) & mask;
    this.#table[place] = slot.index + 1;
    return slot;
  }
}

/** FNV-1a of a name's bytes, up to its first quote. */
function hashName(bytes: Uint8Array, at: number): number {
  let hash = 0x811c9dc5;
  let position = at + 1;
  let byte = bytes[position] as number;
  while (byte !== quote && byte >= 0x20) {
    hash = Math.imul(hash ^ byte, 0x01000193);
    position += 1;
    byte = bytes[position] as number;
  }
  return hash ^ (hash >>> 15);
}

function startsWith(bytes: Uint8Array, at: number, prefix: Uint8Array, length: number): boolean {
  for (let index = 1; index < length; index += 1) if (bytes[at + index] !== prefix[index]) return false;
  return true;
}

import { Kind, type Shape } from '../../rows/column-shape.js';
import type { Column, ColumnSet, Place } from '../../rows/columns.js';
import { jsonBytes } from './bytes.js';
import { staysText } from './text-column.js';

const { quote } = jsonBytes;
/** How many slots from the expected one on are compared before a name is looked up. */
const ahead = 2;

/** Of values that are not looked at: every kind has been seen. */
const anything: Shape = { kinds: Object.values(Kind).reduce((kinds, kind) => kinds | kind, 0) };

/** A member that objects at one place have been seen to have. */
export class Slot {
  readonly index: number;
  readonly column: Column | undefined;
  /** What was seen of it; of a column that is JSON for good, anything. */
  shape: Shape;
  /** The name as it stands in the body, quotes and the colon behind it included. */
  readonly label: Uint8Array;
  /** The same, four bytes at a time; the last word overlaps the one before where the length asks for it. */
  readonly words: Int32Array;
  /** Serial number of the object in which it was last seen: seeing it there again is a name given twice. */
  stamp = 0;
  /** Of a struct's fields. */
  fields: Slots | undefined;
  /** Of a list's items. */
  element: Slot | undefined;
  /** The member whose members are columns of their own. */
  isContainer = false;
  isKey = false;
  /** What the filter asks of it. */
  wanted: string | undefined;
  /** The same as JSON: nearly every value is these bytes. */
  wantedRaw: Buffer | undefined;
  /** The column's name where it is not the member's, as JSON. */
  renamed: Buffer | undefined;
  /** Whether its values go into the spool as text. */
  asText = false;
  /** Whether it is JSON for good, so that its values need not be told apart. */
  isFree = false;
  /** Whether anything but its kind has to be looked at. */
  isSpecial = false;

  /** @param name as it stands in the body, quotes included */
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

  /** To be called whenever the columns may have moved. */
  refresh(): void {
    const { column } = this;
    if (column === undefined) return;
    const { type, declared, name, field } = column;
    this.renamed = name === field ? undefined : Buffer.from(JSON.stringify(name));
    this.asText = type === 'JSON' || declared !== undefined;
    this.isFree = staysText(column);
    this.shape = this.isFree ? anything : column.shape;
    this.isSpecial = this.asText || this.isKey || this.renamed !== undefined || this.wanted !== undefined;
  }
}

/** What a name stands for: the shape of its values, and the column where it is one. */
type Known = { readonly shape: Shape; readonly column: Column | undefined };

/** The members that objects at one place have, in the order in which they first came: mostly that of every object. */
export class Slots {
  readonly #list: Slot[] = [];
  readonly #byName = new Map<string, Slot>();
  readonly #find: (name: string) => Known | undefined;
  /** Open addressing by the hash of a name's bytes: a slot's index and one, or 0. Never more than half full. */
  #table = new Int32Array(64);

  private constructor(find: (name: string) => Known | undefined) {
    this.#find = find;
  }

  static ofColumns(columns: ColumnSet, place: Place): Slots {
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

  /** The slot whose name and colon stand at `at`, if it is one of those that are expected next. */
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

  /** The slot whose name stands at `at`, by its bytes: none where it is written in another way than when it first came. */
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

  /** What is known of a name that has no slot yet. */
  find(name: string): Known | undefined {
    return this.#find(name);
  }

  /** A new slot for a name that stands in the body as `raw`. */
  add(name: string, raw: Uint8Array, { shape, column }: Known): Slot {
    const slot = new Slot(raw, this.#list.length, shape, column);
    this.#list.push(slot);
    this.#byName.set(name, slot);
    if (this.#list.length * 2 > this.#table.length) this.#table = new Int32Array(this.#table.length * 2);
    else return this.#enter(slot);
    for (const each of this.#list) this.#enter(each);
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

import { emptyShape, type Shape } from '../core/column-shape.js';
import type { Column, ColumnSet, Place } from '../core/columns.js';

/** How many slots ahead of the expected one are compared byte by byte before a name is looked up. */
const ahead = 6;

/** A member that objects at one place have been seen to have. */
export class Slot {
  /** The name as it stands in the body, quotes included. */
  readonly raw: Uint8Array;
  readonly index: number;
  readonly shape: Shape;
  readonly column: Column | undefined;
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
  /** Whether anything but its kind has to be looked at. */
  special = false;

  constructor(raw: Uint8Array, index: number, shape: Shape, column: Column | undefined) {
    this.raw = raw;
    this.index = index;
    this.shape = shape;
    this.column = column;
  }

  /** To be called whenever the columns may have moved. */
  refresh(): void {
    if (this.column === undefined) return;
    const { type, declared, name, field } = this.column;
    this.renamed = name === field ? undefined : Buffer.from(JSON.stringify(name));
    this.asText = type === 'JSON' || declared !== undefined;
    this.special = this.asText || this.renamed !== undefined || this.wanted !== undefined;
  }
}

/** The members that objects at one place have, in the order in which they first came: mostly that of every object. */
export class Slots {
  readonly list: Slot[] = [];
  readonly #byName = new Map<string, Slot>();
  readonly #make: (name: string) => { shape: Shape; column: Column | undefined };

  constructor(make: (name: string) => { shape: Shape; column: Column | undefined }) {
    this.#make = make;
  }

  static ofColumns(columns: ColumnSet, place: Place): Slots {
    return new Slots((name) => {
      const column = columns.obtain(place, name);
      return { column, shape: column.shape };
    });
  }

  static ofFields(shape: Shape): Slots {
    shape.fields ??= new Map();
    const { fields } = shape;
    return new Slots((name) => {
      let field = fields.get(name);
      if (field === undefined) {
        field = emptyShape();
        fields.set(name, field);
      }
      return { column: undefined, shape: field };
    });
  }

  /** The slot whose name stands at `at`, if it is one of the next few that are expected. */
  expected(bytes: Uint8Array, at: number, from: number): Slot | undefined {
    const { list } = this;
    const last = Math.min(list.length, from + ahead);
    next: for (let index = from; index < last; index += 1) {
      const slot = list[index] as Slot;
      const { raw } = slot;
      for (let place = 1; place < raw.length; place += 1) {
        if (bytes[at + place] !== raw[place]) continue next;
      }
      return slot;
    }
    return undefined;
  }

  byName(name: string): Slot | undefined {
    return this.#byName.get(name);
  }

  /** A new slot for a name that stands in the body as `raw`. */
  add(name: string, raw: Uint8Array, wanted: string | undefined): Slot {
    const { shape, column } = this.#make(name);
    const slot = new Slot(Uint8Array.from(raw), this.list.length, shape, column);
    slot.wanted = wanted;
    slot.wantedRaw = wanted === undefined ? undefined : Buffer.from(JSON.stringify(wanted));
    slot.refresh();
    this.adopt(name, slot);
    return slot;
  }

  /** Takes in a slot that was made elsewhere, as the next one. */
  adopt(name: string, slot: Slot): void {
    this.list.push(slot);
    this.#byName.set(name, slot);
  }

  refresh(): void {
    for (const slot of this.list) slot.refresh();
  }
}

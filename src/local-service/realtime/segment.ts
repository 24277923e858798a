import type { Selected } from '../data/index-source.js';
import type { Moment } from '../data/population.js';
import { variants } from '../data/segments.js';
import type { SegmentDefinition } from './catalogue.js';
import type { Collection } from './collection.js';

/** A real-time segment over a collection. Each reading computes the members from their attributes. */
export class Segment {
  readonly id: string;
  readonly name: string;
  readonly collection: Collection;
  readonly #matches: SegmentDefinition['matches'];
  /** For each activity variant, whether it matches. */
  #mask: Uint8Array | undefined;
  #counted: { readonly moment: Moment; readonly revision: number; readonly total: number } | undefined;

  constructor({ id, name, matches }: SegmentDefinition, collection: Collection) {
    this.id = id;
    this.name = name;
    this.#matches = matches;
    this.collection = collection;
  }

  /** Whether the profile at a position is a member in this version; false for a version below zero. */
  has(position: number, version: number): boolean {
    if (version < 0) return false;
    const { collection } = this;
    const number = collection.personAt(position);
    if (number === undefined || collection.touched.get(position) !== undefined) {
      return this.#matches(collection.attributesAt(position, version, false));
    }
    return this.#variants()[collection.people.activityVariant(number, version)] === 1;
  }

  total(): number {
    const { moment, revision } = this.collection;
    if (this.#counted?.moment !== moment || this.#counted.revision !== revision) {
      this.#counted = { moment, revision, total: this.#count() };
    }
    return this.#counted.total;
  }

  /** At most `limit` members, from a position onwards, in the order of the collection. */
  select(from: number, limit: number): Selected {
    const positions: number[] = [];
    let next = this.#next(from);
    while (next >= 0 && positions.length < limit) {
      positions.push(next);
      next = this.#next(next + 1);
    }
    return { positions, count: positions.length, next };
  }

  #count(): number {
    let total = 0;
    for (let at = this.#next(0); at >= 0; at = this.#next(at + 1)) total += 1;
    return total;
  }

  #next(from: number): number {
    const { collection } = this;
    for (let at = collection.seek(from); at >= 0; at = collection.seek(at + 1)) {
      if (this.has(at, collection.version(at))) return at;
    }
    return -1;
  }

  #variants(): Uint8Array {
    this.#mask ??= Uint8Array.from({ length: variants }, (_, variant) =>
      this.#matches(this.collection.people.done(variant)) ? 1 : 0,
    );
    return this.#mask;
  }
}

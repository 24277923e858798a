import { hashText } from '../data/hash.js';
import type { ProfileList } from '../data/index-source.js';

/** A list that is answered page by page. */
export interface Listing extends ProfileList {
  /** Binds page tokens to this list. */
  readonly id: number;
  readonly maxRecordBytes: number;
  write(position: number, target: Uint8Array, offset: number): number;
}

const ids = new Map<string, number>();
const maxIds = 5000;

/** The id of a list; the same text gives the same id in every process. */
export function listingId(text: string): number {
  let id = ids.get(text);
  if (id === undefined) {
    id = hashText(text);
    if (ids.size === maxIds) ids.clear();
    ids.set(text, id);
  }
  return id;
}

/** A listing of a few values, written as JSON. */
export function listingOf(name: string, values: readonly unknown[]): Listing {
  const texts = values.map((value) => Buffer.from(JSON.stringify(value)));
  return {
    id: listingId(name),
    maxRecordBytes: Math.max(0, ...texts.map(({ length }) => length)),
    total: () => texts.length,
    select: (from, limit) => {
      const positions = [...texts.keys()].slice(from, from + limit);
      return { positions, count: positions.length, next: from + limit < texts.length ? from + limit : -1 };
    },
    write: (position, target, offset) => {
      const text = texts[position] as Buffer;
      target.set(text, offset);
      return offset + text.length;
    },
  };
}

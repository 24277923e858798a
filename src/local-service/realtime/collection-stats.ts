import type { Collection } from './collection.js';

/** The statistics of a collection as the API answers them (specification, section 4.10). */
export interface CollectionStats {
  readonly total_profiles: number;
  readonly link_cardinality: Readonly<Record<string, number>>;
}

/** Counts the profiles, and for each key name the links. */
export function collectionStats(collection: Collection): CollectionStats {
  const links = new Map([
    ['email', 0],
    ['phone', 0],
    ['loyalty_id', 0],
  ]);
  const add = (name: string, count: number) => links.set(name, (links.get(name) ?? 0) + count);
  let total = 0;
  for (let at = collection.seek(0); at >= 0; at = collection.seek(at + 1)) {
    if (collection.version(at) < 0) continue;
    total += 1;
    const number = collection.personAt(at);
    if (number !== undefined) {
      add('email', collection.people.emails(number));
      add('phone', 1);
      add('loyalty_id', 1);
    }
    for (const [name] of collection.touched.get(at)?.links ?? []) add(name, 1);
  }
  return { total_profiles: total, link_cardinality: Object.fromEntries(links) };
}

import type { Moment } from '../data/moment.js';
import type { NetChange } from '../data/tenant-data.js';
import type { Collection } from './collection.js';
import type { Segment } from './segment.js';

/** The net change of a segment's members over some days. */
interface MembershipChange {
  entered: number;
  left: number;
  /** Members now. */
  total: number;
}

/** The difference between two full readings, one before some days and one after them. */
export interface RealtimeChange {
  readonly collections: Record<string, NetChange>;
  readonly segments: Record<string, MembershipChange>;
}

/** Compares a collection and its segments at an earlier moment with the present. */
export function compareTo(before: Moment, collection: Collection, segments: readonly Segment[]): RealtimeChange {
  const change: NetChange = { inserted: 0, updated: 0, deleted: 0, total: 0 };
  const memberships = segments.map(() => ({ entered: 0, left: 0, total: 0 }));
  for (let at = collection.seek(0); at >= 0; at = collection.seek(at + 1)) {
    const [old, now] = [collection.version(at, before), collection.version(at)];
    if (now >= 0) change.total += 1;
    if (old !== now) change[old < 0 ? 'inserted' : now < 0 ? 'deleted' : 'updated'] += 1;
    segments.forEach((segment, index) => {
      const membership = memberships[index] as MembershipChange;
      const is = segment.has(at, now);
      const was = old === now ? is : segment.has(at, old);
      if (is) membership.total += 1;
      if (is !== was) membership[is ? 'entered' : 'left'] += 1;
    });
  }
  return {
    collections: { [collection.id]: change },
    segments: Object.fromEntries(segments.map(({ id }, index) => [id, memberships[index] as MembershipChange])),
  };
}

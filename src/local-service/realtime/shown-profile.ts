import type { Attributes } from '../data/segments.js';
import type { Collection } from './collection.js';
import type { Links } from './people.js';

/** A real-time profile as the API answers it (specification, section 2.3). */
export interface RealtimeProfile {
  readonly collection_id: string;
  readonly profile_id: string;
  readonly attributes: Attributes;
  readonly created_at: string;
  readonly updated_at: string;
  readonly ticked_at: string;
  readonly links: Links;
}

function linksAt(collection: Collection, position: number): Links {
  const number = collection.personAt(position);
  const links = new Map(Object.entries(number === undefined ? {} : collection.people.links(number)));
  for (const [name, value] of collection.touched.get(position)?.links ?? []) {
    links.set(name, [...(links.get(name) ?? []), value]);
  }
  return Object.fromEntries(links);
}

const timestamp = (ms: number) => new Date(ms).toISOString();

/** The profile at a position, which must hold one. @param enrich whether to add enriched attributes */
export function shownProfile(collection: Collection, position: number, enrich: boolean): RealtimeProfile {
  const version = collection.version(position);
  const { createdAt, updatedAt, tickedAt } = collection.timesAt(position, version);
  return {
    collection_id: collection.id,
    profile_id: collection.idAt(position),
    attributes: collection.attributesAt(position, version, enrich),
    created_at: timestamp(createdAt),
    updated_at: timestamp(updatedAt),
    ticked_at: timestamp(tickedAt),
    links: linksAt(collection, position),
  };
}

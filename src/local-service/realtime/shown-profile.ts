import { type AttributeForm, type Attributes, servedAttributes } from '../data/segments.js';
import type { FaultOf } from '../faults/fault.js';
import type { Collection } from './collection.js';
import type { Links } from './people.js';

/** A real-time profile as the API returns it (specification, section 2.3). */
interface RealtimeProfile {
  readonly collection_id: string;
  readonly profile_id: string;
  readonly attributes: Attributes;
  readonly created_at: string;
  readonly updated_at: string;
  readonly ticked_at?: string;
  readonly links?: Links | readonly { readonly type: string; readonly value: string }[];
}

/** How to show a profile. */
export interface ProfileForm {
  /** Whether to add enriched attributes. */
  readonly enrich: boolean;
  readonly attributes: AttributeForm;
  /** How a deployment shows profiles differently. */
  readonly shape: FaultOf<'realtime_shape'> | undefined;
}

function linksAt(collection: Collection, position: number): Links {
  const number = collection.personAt(position);
  const links = new Map(Object.entries(number === undefined ? {} : collection.people.links(number)));
  for (const [name, value] of collection.touched.get(position)?.links ?? []) {
    links.set(name, [...(links.get(name) ?? []), value]);
  }
  return Object.fromEntries(links);
}

function shownLinks(links: Links, form: 'map' | 'list' | 'absent'): Pick<RealtimeProfile, 'links'> {
  if (form === 'absent') return {};
  if (form === 'map') return { links };
  return { links: Object.entries(links).flatMap(([type, values]) => values.map((value) => ({ type, value }))) };
}

/** The profile at a position, which must hold one. */
export function shownProfile(collection: Collection, position: number, form: ProfileForm): RealtimeProfile {
  const { links = 'map', ticked_at: ticked = true, digits = 3, nanoseconds = 'zeros' } = form.shape ?? {};
  const more = (ms: number) => (nanoseconds === 'zeros' ? 0 : (ms % 999_983) + 1).toString().padStart(6, '0');
  const timestamp = (ms: number) => new Date(ms).toISOString().replace('Z', `${digits === 9 ? more(ms) : ''}Z`);
  const version = collection.version(position);
  const { createdAt, updatedAt, tickedAt } = collection.timesAt(position, version);
  return {
    collection_id: collection.id,
    profile_id: collection.idAt(position),
    attributes: servedAttributes(collection.attributesAt(position, version, form.enrich), form.attributes),
    created_at: timestamp(createdAt),
    updated_at: timestamp(updatedAt),
    ...(ticked ? { ticked_at: timestamp(tickedAt) } : {}),
    ...shownLinks(linksAt(collection, position), links),
  };
}

import { z } from '../../core/zod.js';
import { type DayShares, type Moment, tenantPeople } from '../data/population.js';
import type { NetChange } from '../data/tenant-data.js';
import { collections, segments, streams } from './catalogue.js';
import { Collection, savedCollection } from './collection.js';
import { type RealtimeEvent, readEvent } from './event.js';
import { PersonGenerator } from './people.js';
import { Segment } from './segment.js';
import { madeFrom, mergeEvent, type TouchedProfile } from './touched-profiles.js';

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
function compareTo(before: Moment, collection: Collection, segments: readonly Segment[]): RealtimeChange {
  const change: NetChange = { inserted: 0, updated: 0, deleted: 0, total: 0 };
  const memberships = segments.map(() => ({ entered: 0, left: 0, total: 0 }));
  for (let at = collection.seek(0); at >= 0; at = collection.seek(at + 1)) {
    const [old, current] = [collection.version(at, before), collection.version(at)];
    if (current >= 0) change.total += 1;
    if (old !== current) change[old < 0 ? 'inserted' : current < 0 ? 'deleted' : 'updated'] += 1;
    segments.forEach((segment, index) => {
      const membership = memberships[index] as MembershipChange;
      const is = segment.has(at, current);
      const was = old === current ? is : segment.has(at, old);
      if (is) membership.total += 1;
      if (is !== was) membership[is ? 'entered' : 'left'] += 1;
    });
  }
  return {
    collections: { [collection.id]: change },
    segments: Object.fromEntries(segments.map(({ id }, index) => [id, memberships[index] as MembershipChange])),
  };
}

function findProfile(collection: Collection, { profileId, keys }: RealtimeEvent): number {
  const named = profileId === undefined ? -1 : collection.find(profileId);
  if (named >= 0) return named;
  for (const [name, value] of keys) {
    const position = collection.withKey(name, value);
    if (position >= 0) return position;
  }
  return -1;
}

const untouched = (at: number) => ({ version: 0, updatedAt: at, tickedAt: at, attributes: {}, added: {}, links: [] });

function makeProfile({ touched }: Collection, nowMs: number): number {
  const position = madeFrom + touched.made;
  touched.add(position, { id: touched.nextId(), createdAt: nowMs, ...untouched(nowMs) });
  return position;
}

/** Moves the times of the profile at a position to now, and stores the profile if it is not stored yet. */
function touch(collection: Collection, position: number, nowMs: number): number {
  const version = collection.version(position);
  const { createdAt, updatedAt } = collection.timesAt(position, version);
  // Days of changes may have moved the profile's times beyond the clock. They must not go back.
  const at = Math.max(nowMs, updatedAt + 1);
  const profile = collection.touched.get(position);
  if (profile === undefined) {
    const person = { id: collection.idAt(position), number: collection.personAt(position), version, createdAt };
    collection.touched.add(position, { ...untouched(at), ...person });
  } else Object.assign(profile, { version, updatedAt: at, tickedAt: at });
  return position;
}

/**
 * Applies an event. It finds the profile by id, or by the first key that a profile has, or makes a profile for the keys.
 * The profile gets the keys that no profile has. An event without a known id or any key changes nothing.
 */
function applyEvent(collection: Collection, event: RealtimeEvent, nowMs: number): void {
  const existing = findProfile(collection, event);
  if (existing < 0 && event.keys.length === 0) return;
  const position = existing < 0 ? makeProfile(collection, nowMs) : touch(collection, existing, nowMs);
  mergeEvent(collection.touched.get(position) as TouchedProfile, event.attributes, event.counts);
  for (const [name, value] of event.keys) {
    if (collection.withKey(name, value) < 0) collection.touched.link(position, name, value);
  }
  collection.revision += 1;
  if (existing < 0) collection.counts.add(nowMs, collection.total());
}

/** The ids of the most recent events, limited so that neither memory nor the state file grows for ever. */
export class EventIds {
  static readonly most = 100_000;
  readonly #ids: Set<string>;

  constructor(ids: readonly string[] = []) {
    this.#ids = new Set(ids);
  }

  /** Adds an id; false if it is there already. */
  take(id: string): boolean {
    if (this.#ids.has(id)) return false;
    const [oldest] = this.#ids;
    if (this.#ids.size === EventIds.most && oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
    return true;
  }

  /** In the order in which they were added. */
  get all(): readonly string[] {
    return [...this.#ids];
  }
}

/** The real-time state of a tenant that a restart must keep. */
export const savedTenant = z.object({
  enabled: z.boolean(),
  /** Ids of hidden segments. */
  missing: z.array(z.string()),
  collections: z.record(z.string(), savedCollection),
  /** For each stream, the ids of the events that it has taken. */
  events: z.record(z.string(), z.array(z.string())),
});

type SavedTenant = z.infer<typeof savedTenant>;

interface TenantRealtimeOptions {
  readonly tenant: string;
  readonly seed: number;
  /** Number of people before the first day. */
  readonly profiles: number;
  readonly days: readonly DayShares[];
  /** When the service was first started, in milliseconds since the Unix epoch. */
  readonly origin: number;
  readonly saved?: SavedTenant | undefined;
}

/** The real-time features of one tenant: collections, the streams that feed them, and segments. */
export class TenantRealtime {
  /** If false, every request to the Real-time API is answered 404 (specification, section 1). */
  enabled: boolean;
  readonly #people: PersonGenerator;
  readonly #collections: readonly Collection[];
  readonly #segments: readonly Segment[];
  readonly #missing: Set<string>;
  readonly #taken: Map<string, EventIds>;

  constructor({ tenant, seed, profiles, days, origin, saved }: TenantRealtimeOptions) {
    const population = tenantPeople(tenant, seed, profiles);
    population.moveTo(days);
    this.enabled = saved?.enabled ?? true;
    this.#people = new PersonGenerator(population, seed);
    const options = { people: this.#people, initialPeople: profiles, origin };
    this.#collections = collections.map(
      (definition) => new Collection(definition, { ...options, saved: saved?.collections[definition.id] }),
    );
    this.#segments = segments.map((definition) => {
      const collection = this.#collections.find(({ id }) => id === definition.collection);
      return new Segment(definition, collection as Collection);
    });
    this.#missing = new Set(saved?.missing);
    this.#taken = new Map(streams.map(({ id }) => [id, new EventIds(saved?.events[id])]));
  }

  collection(id: string): Collection | undefined {
    return this.#collections.find((collection) => collection.id === id);
  }

  /** The segments that are not hidden. */
  get segments(): readonly Segment[] {
    return this.#segments.filter(({ id }) => !this.#missing.has(id));
  }

  segment(id: string): Segment | undefined {
    return this.segments.find((segment) => segment.id === id);
  }

  /** Shows or hides a segment; false if no such segment is defined. */
  setSegment(id: string, exists: boolean): boolean {
    if (!segments.some((segment) => segment.id === id)) return false;
    if (exists) this.#missing.delete(id);
    else this.#missing.add(id);
    return true;
  }

  /** Applies an event of a stream. An event with the id of an earlier one changes nothing. */
  take(streamId: string, payload: Record<string, unknown>, nowMs: number): void {
    const stream = streams.find(({ id }) => id === streamId);
    const collection = stream && this.collection(stream.collection);
    const event = readEvent(payload, nowMs);
    if (collection === undefined || (event.id !== undefined && !this.#taken.get(streamId)?.take(event.id))) return;
    applyEvent(collection, event, nowMs);
  }

  /** Moves the collections to a new day; returns the change that clients can see. @param days all since the start */
  moveTo(days: readonly DayShares[], nowMs: number): RealtimeChange {
    const before = this.#people.population.moment;
    this.#people.population.moveTo(days);
    const changes = this.#collections.map((collection) => {
      const segments = this.segments.filter((segment) => segment.collection === collection);
      const change = compareTo(before, collection, segments);
      collection.counts.add(nowMs, collection.total());
      return change;
    });
    if (!this.enabled) return { collections: {}, segments: {} };
    return {
      collections: Object.assign({}, ...changes.map((change) => change.collections)),
      segments: Object.assign({}, ...changes.map((change) => change.segments)),
    };
  }

  get saved(): SavedTenant {
    return {
      enabled: this.enabled,
      missing: [...this.#missing],
      collections: Object.fromEntries(this.#collections.map(({ id, saved }) => [id, saved])),
      events: Object.fromEntries([...this.#taken].map(([id, { all }]) => [id, [...all]])),
    };
  }
}

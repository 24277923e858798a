import type { DayShares } from '../data/moment.js';
import { tenantPeople } from '../data/population.js';
import { applyEvent } from './apply-event.js';
import { collections, segments, streams } from './catalogue.js';
import { Collection } from './collection.js';
import { readEvent } from './event.js';
import { EventIds } from './event-ids.js';
import { compareTo, type RealtimeChange } from './net-change.js';
import { PersonGenerator } from './people.js';
import type { SavedTenant } from './saved-realtime.js';
import { Segment } from './segment.js';

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
  take(streamId: string, payload: Record<string, unknown>, now: number): void {
    const stream = streams.find(({ id }) => id === streamId);
    const collection = stream && this.collection(stream.collection);
    const event = readEvent(payload, now);
    if (collection === undefined || (event.id !== undefined && !this.#taken.get(streamId)?.take(event.id))) return;
    applyEvent(collection, event, now);
  }

  /** Moves the collections to a new day; returns the change that clients can see. @param days all since the start */
  moveTo(days: readonly DayShares[], now: number): RealtimeChange {
    const before = this.#people.population.moment;
    this.#people.population.moveTo(days);
    const changes = this.#collections.map((collection) => {
      const own = this.segments.filter((segment) => segment.collection === collection);
      const change = compareTo(before, collection, own);
      collection.counts.add(now, collection.total());
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

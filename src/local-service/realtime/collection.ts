import { z } from '../../core/zod.js';
import { hashText } from '../data/hash.js';
import type { Moment } from '../data/population.js';
import type { Attributes } from '../data/segments.js';
import type { CollectionDefinition } from './catalogue.js';
import { dayMs, type PersonGenerator, type ProfileTimes } from './people.js';
import { madeFrom, TouchedProfiles, touchedProfile, withEvents } from './touched-profiles.js';

/** How many profiles a collection had from a time on. `at` is in milliseconds since the Unix epoch. */
interface Count {
  readonly at: number;
  readonly total: number;
}

const minuteMs = 60_000;
const growthMs = 730 * 86_400_000;

/**
 * The sizes of a collection over time. Before the service's first start they are invented: the collection grows to its
 * size at that start. Afterwards they are the real ones, to the minute.
 */
export class CountLog {
  readonly #origin: number;
  readonly #first: number;
  readonly #counts: Count[];

  /** @param first number of profiles at the service's first start, `origin` */
  constructor(origin: number, first: number, counts: readonly Count[] = []) {
    this.#origin = origin;
    this.#first = first;
    this.#counts = [...counts];
  }

  get all(): readonly Count[] {
    return this.#counts;
  }

  /** Adds a size. If the clock went back, it uses the time of the last size, so that the order stays. */
  add(nowMs: number, total: number): void {
    const last = this.#counts.at(-1);
    if (total === (last?.total ?? this.#first)) return;
    const at = Math.max(nowMs, last?.at ?? this.#origin);
    if (last !== undefined && Math.floor(last.at / minuteMs) === Math.floor(at / minuteMs)) this.#counts.pop();
    this.#counts.push({ at, total });
  }

  /** The size just before a time. */
  before(time: number): number {
    if (time <= this.#origin) return this.#past(time);
    let [from, to] = [0, this.#counts.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#counts[middle] as Count).at < time) from = middle + 1;
      else to = middle;
    }
    return this.#counts[from - 1]?.total ?? this.#first;
  }

  #past(time: number): number {
    const ahead = Math.min(1, (this.#origin - time) / growthMs);
    return Math.floor(this.#first * (1 - ahead * ahead));
  }
}

/**
 * Which people a collection holds: evenly spread ones, also among those who come later. Arithmetic converts a place into
 * a number and back.
 */
export class MemberSet {
  readonly #size: number;
  readonly #people: number;

  /** @param size how many of the first `people` it holds, at most all of them */
  constructor(size: number, people: number) {
    this.#size = size;
    this.#people = people;
  }

  /** The number of the person at a place; infinity if the collection is empty. */
  numberAt(place: number): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : Math.ceil(((place + 1) * this.#people) / this.#size) - 1;
  }

  /** The place of a person; -1 if the collection does not hold the person. */
  placeOf(number: number): number {
    if (this.#size === 0) return -1;
    const place = Math.floor(((number + 1) * this.#size) / this.#people) - 1;
    return this.numberAt(place) === number ? place : -1;
  }
}

/** The changes of a collection that a restart must keep. */
export const savedCollection = z.object({
  touched: z.array(touchedProfile),
  /** Each change of the number of profiles. `at` is in milliseconds since the Unix epoch. */
  counts: z.array(z.object({ at: z.number(), total: z.int() })),
});

type SavedCollection = z.infer<typeof savedCollection>;

interface CollectionOptions {
  readonly people: PersonGenerator;
  /** The number of people before the first day. */
  readonly initialPeople: number;
  /** When the service was first started, in milliseconds since the Unix epoch. */
  readonly origin: number;
  readonly saved?: SavedCollection | undefined;
}

/**
 * A profile collection. It computes people and stores only what events have changed or made. A position in the
 * collection's order, which never changes, names a profile.
 */
export class Collection {
  readonly id: string;
  readonly touched: TouchedProfiles;
  readonly counts: CountLog;
  readonly people: PersonGenerator;
  /** Each event that changes the collection raises it. */
  revision = 0;
  readonly #roster: MemberSet;
  #counted: { readonly moment: Moment; readonly people: number } | undefined;

  constructor(definition: CollectionDefinition, { people, initialPeople, origin, saved }: CollectionOptions) {
    this.id = definition.id;
    this.people = people;
    const size = definition.size(initialPeople);
    this.#roster = new MemberSet(size, initialPeople);
    this.counts = new CountLog(origin, size, saved?.counts);
    this.touched = new TouchedProfiles(hashText(`${people.idOf(0)} ${definition.id}`));
    for (const one of saved?.touched ?? []) {
      const place = one.number === undefined ? madeFrom + this.touched.made : this.#roster.placeOf(one.number);
      // A service started with another number of profiles may hold other people.
      if (place >= 0) this.touched.add(place, one);
    }
  }

  get saved(): SavedCollection {
    return { touched: [...this.touched.all], counts: [...this.counts.all] };
  }

  get moment(): Moment {
    return this.people.population.moment;
  }

  /** How often days have updated the profile at a position; -1 if it does not exist yet, or is deleted. */
  version(position: number, moment = this.moment): number {
    if (position >= madeFrom) return position < madeFrom + this.touched.made ? 0 : -1;
    return this.people.population.version(this.#roster.numberAt(position), moment);
  }

  /** The first position, at or after this one, that can hold a profile at a moment; -1 after the last. */
  seek(position: number, moment = this.moment): number {
    if (position < madeFrom && this.#roster.numberAt(position) < moment.end) return position;
    const made = Math.max(position, madeFrom);
    return made < madeFrom + this.touched.made ? made : -1;
  }

  total(): number {
    const { moment } = this;
    if (this.#counted?.moment !== moment) this.#counted = { moment, people: this.#countPeople() };
    return this.#counted.people + this.touched.made;
  }

  /** Position of the profile with this id; -1 if there is none. */
  find(id: string): number {
    const number = this.people.numberOf(id);
    return number === undefined ? this.touched.findMade(id) : this.#present(number);
  }

  /** Position of the profile that has this key; -1 if there is none. */
  withKey(name: string, value: string): number {
    const holder = this.touched.holders(name, value).find((position) => this.version(position) >= 0);
    if (holder !== undefined) return holder;
    const number = this.people.withKey(name, value);
    return number === undefined ? -1 : this.#present(number);
  }

  /** The person at a position; undefined for a profile that an event has made. */
  personAt(position: number): number | undefined {
    return position < madeFrom ? this.#roster.numberAt(position) : undefined;
  }

  idAt(position: number): string {
    return this.touched.get(position)?.id ?? this.people.idOf(this.#roster.numberAt(position));
  }

  attributesAt(position: number, version: number, enrich: boolean): Attributes {
    const number = this.personAt(position);
    const base = number === undefined ? {} : this.people.attributes(number, version, enrich);
    const touched = this.touched.get(position);
    return touched === undefined ? base : withEvents(base, touched);
  }

  /** Each update since the last event adds a whole day, so that its times are always later than the event. */
  timesAt(position: number, version: number): ProfileTimes {
    const touched = this.touched.get(position);
    if (touched === undefined) return this.people.times(this.#roster.numberAt(position), version);
    const { createdAt, updatedAt, tickedAt } = touched;
    const later = (version - touched.version) * dayMs;
    return { createdAt, updatedAt: updatedAt + later, tickedAt: tickedAt + later };
  }

  #countPeople(): number {
    let count = 0;
    for (let at = this.seek(0); at >= 0 && at < madeFrom; at = this.seek(at + 1)) if (this.version(at) >= 0) count += 1;
    return count;
  }

  #present(number: number): number {
    const place = this.#roster.placeOf(number);
    return place >= 0 && this.version(place) >= 0 ? place : -1;
  }
}

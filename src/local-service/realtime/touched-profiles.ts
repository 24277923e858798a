import { z } from '../../core/zod.js';
import { mix, unmix } from '../data/hash.js';
import type { Attributes } from '../data/segments.js';
import { isRecord } from './event.js';

/** The changes of events to a profile. Everything else is the person's, which days continue to change. */
export const touchedProfile = z.object({
  id: z.string(),
  /** The person's number; undefined for a profile that an event has made. */
  number: z.int().optional(),
  /** The person's version when the last event arrived. */
  version: z.int(),
  /** Milliseconds since the Unix epoch. */
  createdAt: z.number(),
  /** Time of the last event. */
  updatedAt: z.number(),
  tickedAt: z.number(),
  /** They replace the person's attributes of the same names. A zod record would lose names such as `__proto__`. */
  attributes: z.custom<Attributes>(isRecord),
  /** Amounts to add to the attributes. */
  added: z.record(z.string(), z.number()),
  /** Keys besides the person's own. */
  links: z.array(z.tuple([z.string(), z.string()])),
});

export type TouchedProfile = z.infer<typeof touchedProfile>;

/** Rounds to two decimals, since some sums are money. */
function sum(a: number, b: number): number {
  const cents = Math.round((a + b) * 100);
  return Number.isFinite(cents) ? cents / 100 : a + b;
}

/** A person's attributes, with the changes of events. */
export function withEvents(base: Attributes, { attributes, added }: TouchedProfile): Attributes {
  const merged: Attributes = { ...base, ...attributes };
  for (const [name, amount] of Object.entries(added)) {
    const value = merged[name];
    merged[name] = typeof value === 'number' ? sum(value, amount) : amount;
  }
  return merged;
}

/** Adds the attributes and counts of one more event. An attribute that the event sets loses the amounts added before. */
export function mergeEvent(touched: TouchedProfile, attributes: Attributes, counts: Readonly<Record<string, number>>) {
  touched.attributes = { ...touched.attributes, ...attributes };
  const added = Object.entries(touched.added).filter(([name]) => !Object.hasOwn(attributes, name));
  touched.added = Object.fromEntries(added);
  for (const [name, amount] of Object.entries(counts)) touched.added[name] = sum(touched.added[name] ?? 0, amount);
}

/** The first position for profiles that events make: far above any person's. */
export const madeFrom = 2 ** 40;

const madeId = /^pe-[0-9a-f]{8}$/;
const keyText = (name: string, value: string) => JSON.stringify([name, value]);
const none: readonly number[] = [];

/** The profiles of a collection that events have changed or made, by position. */
export class TouchedProfiles {
  readonly #idKey: number;
  readonly #profiles = new Map<number, TouchedProfile>();
  /** A key can have several holders over time. All but the last are deleted profiles. */
  readonly #holders = new Map<string, number[]>();
  #made = 0;

  constructor(idKey: number) {
    this.#idKey = idKey;
  }

  /** In the order of their first event. */
  get all(): readonly TouchedProfile[] {
    return [...this.#profiles.values()];
  }

  /** How many profiles events have made. */
  get made(): number {
    return this.#made;
  }

  get(position: number): TouchedProfile | undefined {
    return this.#profiles.size === 0 ? undefined : this.#profiles.get(position);
  }

  /** The id for the next profile that an event makes. */
  nextId(): string {
    return `pe-${mix(this.#made ^ this.#idKey)
      .toString(16)
      .padStart(8, '0')}`;
  }

  /** Position of the profile with this id, if an event has made it; otherwise -1. */
  findMade(id: string): number {
    if (!madeId.test(id)) return -1;
    const index = (unmix(Number.parseInt(id.slice(3), 16)) ^ this.#idKey) >>> 0;
    return index < this.#made ? madeFrom + index : -1;
  }

  holders(name: string, value: string): readonly number[] {
    return this.#holders.get(keyText(name, value)) ?? none;
  }

  /** Adds a profile with its links. A profile that an event has made must get the next free position. */
  add(position: number, touched: TouchedProfile): void {
    this.#profiles.set(position, touched);
    if (position >= madeFrom) this.#made += 1;
    for (const [name, value] of touched.links) this.#hold(position, name, value);
  }

  /** Adds a key to a profile that is already here. */
  link(position: number, name: string, value: string): void {
    this.#profiles.get(position)?.links.push([name, value]);
    this.#hold(position, name, value);
  }

  #hold(position: number, name: string, value: string): void {
    const text = keyText(name, value);
    const holders = this.#holders.get(text);
    if (holders === undefined) this.#holders.set(text, [position]);
    else holders.push(position);
  }
}

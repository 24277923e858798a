import { z } from 'zod';
import type { Attributes } from '../data/segments.js';
import { isRecord } from './event.js';

/** What events have changed in a profile. Everything else comes from the person, which days continue to change. */
export const touchedProfile = z.object({
  id: z.string(),
  /** The person's number; undefined for a profile that an event has made. */
  number: z.int().optional(),
  /** The person's version when the last event came. */
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

import { z } from 'zod';
import type { Attributes } from '../data/segments.js';
import { isRecord } from './event.js';

/** What events have made of a profile; the rest still comes from the person, whom days go on to change. */
export const touchedProfile = z.object({
  id: z.string(),
  /** The person's; left out for a profile that an event has made. */
  number: z.int().optional(),
  /** The person's version when the last event came. */
  version: z.int(),
  /** Milliseconds since the Unix epoch. */
  createdAt: z.number(),
  /** Of the last event. */
  updatedAt: z.number(),
  tickedAt: z.number(),
  /** In the place of the person's attributes of these names. A record of zod's would lose some names. */
  attributes: z.custom<Attributes>(isRecord),
  /** On top of these attributes. */
  added: z.record(z.string(), z.number()),
  /** Further keys than the person's. */
  links: z.array(z.tuple([z.string(), z.string()])),
});

export type TouchedProfile = z.infer<typeof touchedProfile>;

/** Sums of money have two decimals. */
function sum(a: number, b: number): number {
  const cents = Math.round((a + b) * 100);
  return Number.isFinite(cents) ? cents / 100 : a + b;
}

/** Attributes of a person with what events have made of them. */
export function withEvents(base: Attributes, { attributes, added }: TouchedProfile): Attributes {
  const merged: Attributes = { ...base, ...attributes };
  for (const [name, amount] of Object.entries(added)) {
    const value = merged[name];
    merged[name] = typeof value === 'number' ? sum(value, amount) : amount;
  }
  return merged;
}

/** Takes the attributes and counts of one more event in; an attribute that is set forgets what was counted before. */
export function mergeEvent(touched: TouchedProfile, attributes: Attributes, counts: Readonly<Record<string, number>>) {
  touched.attributes = { ...touched.attributes, ...attributes };
  const added = Object.entries(touched.added).filter(([name]) => !Object.hasOwn(attributes, name));
  touched.added = Object.fromEntries(added);
  for (const [name, amount] of Object.entries(counts)) touched.added[name] = sum(touched.added[name] ?? 0, amount);
}

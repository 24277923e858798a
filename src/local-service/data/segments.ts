import { Draws } from './hash.js';
import { languages, names, notes, places, stores, tags } from './words.js';

/** How many variants there are of each segment. */
export const variants = 4096;

/** Attributes by name, in the order in which they are written. */
export type Attributes = Record<string, unknown>;

/** The levels of `tier`, and how many of 64 variants have each. */
const tiers = [
  ['bronze', 32],
  ['silver', 18],
  ['gold', 10],
  ['platinum', 4],
] as const;

const epoch = Date.UTC(2025, 0, 15, 9, 30);
const dayMs = 86_400_000;

/** An ISO 8601 time with milliseconds, up to `days` days before 15 January 2025. */
function before(draws: Draws, days: number): string {
  return new Date(epoch - Math.floor(draws.next() * days * dayMs)).toISOString();
}

/** A person's identity: no update changes these attributes. */
export function person(seed: number, variant: number): Attributes {
  const draws = new Draws(seed + variant * 3);
  const [first, last] = names[variant % names.length] as (typeof names)[number];
  const optedIn = draws.chance(0.7);
  const joined = before(draws, 3000);
  return {
    first_name: first,
    last_name: last,
    birthday: draws.chance(0.1) ? null : new Date(draws.below(15_000) * dayMs).toISOString().slice(0, 10),
    ...(draws.chance(0.2) ? {} : { gender: draws.pick(['female', 'male', 'other', null]) }),
    language: draws.pick(languages),
    email_opt_in: optedIn,
    sms_opt_in: draws.chance(0.3),
    consents: {
      email: { granted: optedIn, at: optedIn ? joined : null },
      profiling: { granted: draws.chance(0.5), version: 1 + draws.below(4) },
    },
    joined_at: joined,
  };
}

/** A person's address. */
export function address(seed: number, variant: number): Attributes {
  const draws = new Draws(seed + variant * 3 + 1);
  const [country, city, postcode, timezone] = places[variant % places.length] as (typeof places)[number];
  const zip = postcode.replace(/#/g, () => String(draws.below(10))).replace(/A/g, () => draws.pick([...'BCDEFGHJK']));
  return {
    country,
    city,
    zip,
    ...(draws.chance(0.3) ? { district: draws.chance(0.5) ? null : `District ${1 + draws.below(20)}` } : {}),
    timezone,
  };
}

/** A variant's position among the 64 of its country decides the tier, so that every country has every tier. */
export function tierOf(variant: number): number {
  let position = Math.floor(variant / places.length) % 64;
  return tiers.findIndex(([, count]) => {
    position -= count;
    return position < 0;
  });
}

/** A person's activity: updates change these attributes. No two variants have the same `updated_at`. */
export function activity(seed: number, variant: number): Attributes {
  const draws = new Draws(seed + variant * 3 + 2);
  const orders = draws.below(120);
  const ltv = Math.round(draws.next() * orders * 9000) / 100;
  const devices = Array.from({ length: draws.below(3) }, () => ({
    type: draws.pick(['ios', 'android', 'web']),
    push: draws.chance(0.5),
  }));
  return {
    tier: (tiers[tierOf(variant)] as (typeof tiers)[number])[0],
    points: draws.below(100_000),
    orders,
    ltv,
    average_order: orders === 0 ? null : Math.round((ltv / orders) * 100) / 100,
    ...(orders === 0 ? {} : { last_order_at: before(draws, 900) }),
    preferred_store: draws.pick(stores),
    tags: tags.filter(() => draws.chance(0.25)),
    devices,
    churn_risk: Math.round(draws.next() * 10_000) / 10_000,
    is_active: draws.chance(0.8),
    ...(draws.chance(0.15) ? { note: draws.pick(notes) } : {}),
    updated_at: new Date(epoch + variant * 61_007).toISOString(),
  };
}

/** How attribute values are served: as text, as the interface publishes them, or with the types of their JSON. */
export type AttributeForm = 'text' | 'typed';

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** The attributes as they are served. As text, a list or an object is its JSON, and nulls are left out. */
export function servedAttributes(attributes: Attributes, form: AttributeForm): Attributes {
  if (form === 'typed') return attributes;
  const present = Object.entries(attributes).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(present.map(([name, value]) => [name, textOf(value)]));
}

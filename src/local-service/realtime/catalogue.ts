import type { Attributes } from '../data/segments.js';

/** A profile collection that every tenant has from the start. */
export interface CollectionDefinition {
  readonly id: string;
  readonly name: string;
  /** How many of a tenant's people it holds before the first day. */
  readonly size: (people: number) => number;
}

/** A real-time segment: the profiles of a collection whose attributes match. */
export interface SegmentDefinition {
  readonly id: string;
  readonly name: string;
  readonly collection: string;
  /** Reads only the attributes that `People.done` or events give. */
  readonly matches: (attributes: Attributes) => boolean;
}

/** How a stream handles events: `feeds` applies them, `drops` accepts but ignores them, `paused` refuses them. */
type StreamMode = 'feeds' | 'drops' | 'paused';

/** An event stream (specification, section 6). */
export interface StreamDefinition {
  readonly id: string;
  readonly collection: string;
  readonly mode: StreamMode;
}

export const collections: readonly CollectionDefinition[] = [
  { id: 'col-1', name: 'customers', size: (people) => Math.min(people, Math.max(50, Math.round(people / 10))) },
  { id: 'col-2', name: 'store_guests', size: (people) => Math.min(people, 40) },
];

/** The segments of a profile are listed in this order. */
export const segments: readonly SegmentDefinition[] = [
  {
    id: 'seg-vip',
    name: 'Big spenders',
    collection: 'col-1',
    matches: ({ total_spent: spent }) => typeof spent === 'number' && spent >= 8200,
  },
  { id: 'seg-gold', name: 'Gold tier', collection: 'col-1', matches: ({ tier }) => tier === 'gold' },
  {
    id: 'seg-lapsed',
    name: 'Bought once, and away',
    collection: 'col-1',
    matches: ({ is_active: active, purchases }) => active === false && typeof purchases === 'number' && purchases > 0,
  },
  {
    id: 'seg-regular-guest',
    name: 'Regular guests',
    collection: 'col-2',
    matches: ({ purchases }) => typeof purchases === 'number' && purchases >= 60,
  },
];

export const streams: readonly StreamDefinition[] = [
  { id: 'evs-1', collection: 'col-1', mode: 'feeds' },
  { id: 'evs-2', collection: 'col-2', mode: 'feeds' },
  { id: 'evs-drop', collection: 'col-1', mode: 'drops' },
  { id: 'evs-paused', collection: 'col-1', mode: 'paused' },
];

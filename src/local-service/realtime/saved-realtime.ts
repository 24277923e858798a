import { z } from 'zod';
import { touchedProfile } from './touched-profile.js';

const collection = z.object({
  touched: z.array(touchedProfile),
  /** When the number of profiles changed, and to what. */
  counts: z.array(z.object({ at: z.number(), total: z.int() })),
});

const tenant = z.object({
  enabled: z.boolean(),
  /** Segments that have been taken away. */
  missing: z.array(z.string()),
  collections: z.record(z.string(), collection),
  /** Ids of events that each stream has taken. */
  events: z.record(z.string(), z.array(z.string())),
});

/** What is kept of real-time features over restarts. */
export const savedRealtime = z.object({
  /** When the service was first started, in milliseconds since the Unix epoch. */
  origin: z.number(),
  /** Names the journal of events that belongs to this state. */
  journal: z.string(),
  /** Number of the last event that is in this state. */
  sequence: z.int(),
  tenants: z.record(z.string(), tenant),
});

export type SavedRealtime = z.infer<typeof savedRealtime>;
export type SavedTenant = SavedRealtime['tenants'][string];
export type SavedCollection = SavedTenant['collections'][string];

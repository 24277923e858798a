import { z } from 'zod';
import { touchedProfile } from './touched-profile.js';

const collection = z.object({
  touched: z.array(touchedProfile),
  /** Each change of the number of profiles. `at` is in milliseconds since the Unix epoch. */
  counts: z.array(z.object({ at: z.number(), total: z.int() })),
});

const tenant = z.object({
  enabled: z.boolean(),
  /** Ids of hidden segments. */
  missing: z.array(z.string()),
  collections: z.record(z.string(), collection),
  /** For each stream, the ids of the events that it has taken. */
  events: z.record(z.string(), z.array(z.string())),
});

/** The real-time state that a restart must keep. */
export const savedRealtime = z.object({
  /** When the service was first started, in milliseconds since the Unix epoch. */
  origin: z.number(),
  /** The name of this state in the journal of events. */
  journal: z.string(),
  /** Number of the last event in this state. */
  sequence: z.int(),
  tenants: z.record(z.string(), tenant),
});

export type SavedRealtime = z.infer<typeof savedRealtime>;
export type SavedTenant = SavedRealtime['tenants'][string];
export type SavedCollection = SavedTenant['collections'][string];

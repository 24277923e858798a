import { randomBytes } from 'node:crypto';
import { z } from '../../core/zod.js';
import type { DayShares } from '../data/population.js';
import type { EventJournal, JournalEntry } from '../event-journal.js';
import { type RealtimeChange, savedTenant, TenantRealtime } from './tenant-realtime.js';

/** The real-time state that a restart must keep. */
export const savedRealtime = z.object({
  /** When the service was first started, in milliseconds since the Unix epoch. */
  origin: z.number(),
  /** The name of this state in the journal of events. */
  journal: z.string(),
  /** Number of the last event in this state. */
  sequence: z.int(),
  tenants: z.record(z.string(), savedTenant),
});

type SavedRealtime = z.infer<typeof savedRealtime>;

interface RealtimeOptions {
  readonly seed: number;
  readonly profiles: number;
  readonly days: readonly DayShares[];
  /** The time of day. Without saved state, it becomes the time of the first start. */
  readonly now: number;
  readonly saved?: SavedRealtime | undefined;
}

/** The real-time features of all tenants. It makes those of a tenant when they are first needed. */
export class RealtimeTenants {
  readonly #options: RealtimeOptions;
  readonly #origin: number;
  readonly #tenants = new Map<string, TenantRealtime>();
  readonly #journalName: string;
  #sequence: number;
  #journal: EventJournal | undefined;
  #days: readonly DayShares[];

  constructor(options: RealtimeOptions) {
    this.#options = options;
    this.#origin = options.saved?.origin ?? options.now;
    this.#journalName = options.saved?.journal ?? randomBytes(8).toString('hex');
    this.#sequence = options.saved?.sequence ?? 0;
    this.#days = options.days;
  }

  /** Adds every further event to a journal. */
  recordTo(journal: EventJournal): void {
    this.#journal = journal;
  }

  /** Applies the events of a journal that the saved state does not have yet. */
  replay(entries: readonly JournalEntry[]): void {
    for (const { journal, sequence, tenant, stream, at, event } of entries) {
      if (journal !== this.#journalName || sequence <= this.#sequence) continue;
      this.#sequence = sequence;
      this.of(tenant).take(stream, event, at);
    }
  }

  /** Applies an event that a tenant's stream has accepted, and adds it to the journal. */
  take(tenant: string, stream: string, event: Record<string, unknown>, at: number): void {
    this.#sequence += 1;
    this.#journal?.add({ journal: this.#journalName, sequence: this.#sequence, tenant, stream, at, event });
    this.of(tenant).take(stream, event, at);
  }

  of(tenant: string): TenantRealtime {
    let state = this.#tenants.get(tenant);
    if (state === undefined) {
      const { seed, profiles, saved } = this.#options;
      const options = { tenant, seed, profiles, days: this.#days, origin: this.#origin };
      state = new TenantRealtime({ ...options, saved: saved?.tenants[tenant] });
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  /** Lets days pass for every tenant; returns the change of this one. @param days all days since the start */
  moveTo(days: readonly DayShares[], tenant: string, nowMs: number): RealtimeChange {
    const shown = this.of(tenant);
    this.#days = days;
    for (const other of this.#tenants.values()) if (other !== shown) other.moveTo(days, nowMs);
    return shown.moveTo(days, nowMs);
  }

  get saved(): SavedRealtime {
    const live = [...this.#tenants].map(([tenant, { saved }]) => [tenant, saved] as const);
    const [journal, sequence] = [this.#journalName, this.#sequence];
    return {
      origin: this.#origin,
      journal,
      sequence,
      tenants: { ...this.#options.saved?.tenants, ...Object.fromEntries(live) },
    };
  }
}

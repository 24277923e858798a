import { randomBytes } from 'node:crypto';
import type { DayShares } from '../data/moment.js';
import type { EventJournal, JournalEntry } from '../event-journal.js';
import type { RealtimeChange } from './net-change.js';
import type { SavedRealtime } from './saved-realtime.js';
import { TenantRealtime } from './tenant-realtime.js';

export interface RealtimeOptions {
  readonly seed: number;
  readonly profiles: number;
  readonly days: readonly DayShares[];
  /** The time of day, which is that of the first start where nothing is saved. */
  readonly now: number;
  readonly saved?: SavedRealtime | undefined;
}

/** The real-time features of all tenants, each made when it is first asked for. */
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

  /** Events are written to a journal from now on. */
  recordTo(journal: EventJournal): void {
    this.#journal = journal;
  }

  /** Takes in what a journal holds beyond the saved state. */
  replay(entries: readonly JournalEntry[]): void {
    for (const { journal, sequence, tenant, stream, at, event } of entries) {
      if (journal !== this.#journalName || sequence <= this.#sequence) continue;
      this.#sequence = sequence;
      this.of(tenant).take(stream, event, at);
    }
  }

  /** Takes an event in that a stream of a tenant has accepted. */
  take(tenant: string, stream: string, event: Record<string, unknown>, at: number): void {
    this.#sequence += 1;
    this.#journal?.add({ journal: this.#journalName, sequence: this.#sequence, tenant, stream, at, event });
    this.of(tenant).take(stream, event, at);
  }

  of(tenant: string): TenantRealtime {
    let found = this.#tenants.get(tenant);
    if (found === undefined) {
      const { seed, profiles, saved } = this.#options;
      const options = { tenant, seed, profiles, days: this.#days, origin: this.#origin };
      found = new TenantRealtime({ ...options, saved: saved?.tenants[tenant] });
      this.#tenants.set(tenant, found);
    }
    return found;
  }

  /** Days pass for all; tells what they did for this one. */
  moveTo(days: readonly DayShares[], tenant: string, now: number): RealtimeChange {
    const shown = this.of(tenant);
    this.#days = days;
    for (const other of this.#tenants.values()) if (other !== shown) other.moveTo(days, now);
    return shown.moveTo(days, now);
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

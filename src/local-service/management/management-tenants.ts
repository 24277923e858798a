import { z } from '../../core/zod.js';
import type { NetChange } from '../data/tenant-data.js';
import { tenantFamily } from '../keys/key-store.js';
import { type AuditEvent, savedTenant, TenantManagement } from './tenant-management.js';
import { shownRun } from './workflow-run.js';

type ManagementChange = Readonly<Record<string, NetChange>>;

type Lists = Readonly<Record<string, ReadonlyMap<string, string>>>;

function byId(things: readonly object[], field: string): Map<string, string> {
  return new Map(things.map((thing) => [String((thing as Record<string, unknown>)[field]), JSON.stringify(thing)]));
}

const shownById = (things: readonly { readonly shown: object }[]) =>
  byId(
    things.map(({ shown }) => shown),
    'id',
  );

function compared(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): NetChange {
  const change = { inserted: 0, updated: 0, deleted: 0, total: after.size };
  for (const [id, text] of after) {
    const old = before.get(id);
    if (old === undefined) change.inserted += 1;
    else if (old !== text) change.updated += 1;
  }
  for (const id of before.keys()) if (!after.has(id)) change.deleted += 1;
  return change;
}

/** The state of the Management API that a restart must keep. */
export const savedManagement = z.object({
  /** When the service was first started; the invented past ends there. */
  origin: z.number(),
  tenants: z.record(z.string(), savedTenant),
});

type SavedManagement = z.infer<typeof savedManagement>;

/** The Management API of all tenants. */
export class ManagementTenants {
  readonly saved: SavedManagement;
  readonly #seed: number;
  readonly #tenants = new Map<string, TenantManagement>();

  constructor(seed: number, nowMs: number, saved: SavedManagement | undefined) {
    this.#seed = seed;
    this.saved = saved ?? { origin: nowMs, tenants: {} };
  }

  of(tenant: string): TenantManagement {
    let state = this.#tenants.get(tenant);
    if (state === undefined) {
      this.saved.tenants[tenant] ??= { days: [], runs: [], events: [] };
      state = new TenantManagement(tenant, this.#seed, this.saved.origin, this.saved.tenants[tenant]);
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  /** The audit events that a tenant sees, by time. A production tenant also sees those of its sandboxes. */
  events(tenant: string, knownNames: readonly string[]): AuditEvent[] {
    const seen = knownNames.filter((other) => other === tenant || tenantFamily(other) === tenant);
    const events = [...new Set([tenant, ...seen])].flatMap((name) => this.of(name).events());
    const key = ({ happened_at, event_id }: AuditEvent) => `${happened_at} ${event_id}`;
    return events.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  }

  /** Lets days pass for every tenant; returns the changes in the lists of this one. */
  pass(days: number, tenant: string, knownNames: readonly string[], nowMs: number): ManagementChange {
    const before = this.#lists(tenant, knownNames, nowMs);
    for (const id of new Set([tenant, ...knownNames, ...this.#tenants.keys()])) this.of(id).pass(days, nowMs);
    const after = this.#lists(tenant, knownNames, nowMs);
    return Object.fromEntries(
      Object.entries(after).map(([name, list]) => [name, compared(before[name] ?? new Map(), list)]),
    );
  }

  #lists(tenant: string, knownNames: readonly string[], nowMs: number): Lists {
    const tenantState = this.of(tenant);
    // Jobs and runs of the last day can start and end shortly after the present.
    const then = nowMs + 1000;
    return {
      audit_events: byId(this.events(tenant, knownNames), 'event_id'),
      campaigns: shownById(tenantState.named('campaigns')),
      campaign_drafts: shownById(tenantState.named('campaignDrafts')),
      segments: shownById(tenantState.named('segments')),
      ingest_jobs: shownById(tenantState.jobs(then)),
      workflow_runs: byId(
        tenantState.runs().map((run) => shownRun(run, then, 'verbose')),
        'id',
      ),
    };
  }
}

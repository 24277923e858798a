/**
 * The state of the storage folder and of the service when a run starts.
 * - `first`: nothing.
 * - `daily`: two snapshots, and a day of changes at the service.
 * - `reading`: the same, with a run that was killed while it read, after its first checkpoint.
 * - `repair`: the same, with a run that was killed after its commit, before it published anything.
 * - `rules`: as `daily`, with new column rules that make the next run rewrite everything that is stored.
 */
export type Situation = 'first' | 'daily' | 'reading' | 'repair' | 'rules';

export const situations: readonly Situation[] = ['first', 'daily', 'reading', 'repair', 'rules'];

export const job = 'daily';

/** Streams of the job: a partitioned list, a small one, records by key, a list that only grows, and a query. */
export const streams = [
  {
    name: 'members',
    source: 'index_profiles',
    index: 'loyalty_members',
    page_size: 200,
    partition_by: { attribute: 'tier', values: ['platinum'] },
  },
  { name: 'vip', source: 'segment_members', segment: 'seg-vip', page_size: 20 },
  {
    name: 'vip_profiles',
    source: 'realtime_profiles',
    collection: 'col-1',
    ids: { sql: "select profile_id from vip union all select id from members where country = 'DE'" },
  },
  // At the service, a whole day passes in a moment, so its events come late.
  { name: 'audit', source: 'audit_events', page_size: 100, lag_ms: 86_400_000 },
  {
    name: 'tiers',
    source: 'sql',
    key: ['tier'],
    query: "select coalesce(tier, '-') as tier, count(*) as n, sum(points::bigint) as p from members group by 1",
  },
] as const;

/** Streams that are delivered to the destination, a DuckDB file below the storage folder. */
export const delivered = ['members', 'vip'] as const;

export const destination = 'warehouse';

/** Of `members`, in the situation `rules`. */
export const newRules = { phone: { drop: true }, email: { mask: 'last4' } } as const;

export const keys: Readonly<Record<string, readonly string[]>> = {
  members: ['id'],
  vip: ['segment_id', 'profile_id'],
  vip_profiles: ['profile_id'],
  audit: ['event_id'],
  tiers: ['tier'],
};

export const streamNames = streams.map(({ name }) => name);

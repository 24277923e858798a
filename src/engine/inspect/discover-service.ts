import type { Index } from '../../api/profile-api.js';
import { listIndexes, listSegments, type NotReadable, type ServiceBrowser, unread } from './explorer.js';
import { countProfiles, type SampledAttribute, sampleIndex } from './sample-index.js';

export interface DiscoveredIndex {
  readonly id: string;
  readonly name: string | null;
  readonly description: string | null;
  /** By the service's own count; null if it was not asked, or gives none. */
  readonly profiles: number | null;
  /** Profiles in the sample that the attributes come from. */
  readonly sampled: number;
  readonly attributes: readonly SampledAttribute[];
  readonly error: NotReadable | null;
}

interface DiscoveredSegment {
  readonly id: string;
  readonly name: string | null;
  readonly status: string | null;
}

/** The result of `cdsync discover`. */
export interface Discovery {
  /** `failed` if something went wrong, or the key may read nothing at all. */
  readonly status: 'ok' | 'failed';
  readonly base_url: string;
  readonly tenant_id: string;
  readonly indexes: readonly DiscoveredIndex[];
  readonly indexes_error: NotReadable | null;
  readonly segments: readonly DiscoveredSegment[];
  readonly segments_error: NotReadable | null;
}

export interface DiscoverOptions {
  /** Profiles of each index to look at. */
  readonly sample: number;
  /** Ask for totals, which can be expensive (specification, section 4.4). */
  readonly totals: boolean;
  /** Ask which attributes can be filtered, one request each. */
  readonly filters: boolean;
}

async function discoverIndex(
  explorer: ServiceBrowser,
  { id, name, description }: Index,
  { sample, totals, filters }: DiscoverOptions,
): Promise<DiscoveredIndex> {
  const entry = { id, name: name ?? null, description: description ?? null };
  try {
    const { profiles: sampled, attributes } = await sampleIndex(explorer, id, { size: sample, filters });
    const profiles = totals ? await countProfiles(explorer, id) : null;
    return { ...entry, profiles, sampled, attributes, error: null };
  } catch (thrown) {
    return { ...entry, profiles: null, sampled: 0, attributes: [], error: unread(thrown) };
  }
}

/** Everything that could not be read. */
export function errorsOf({ indexes, indexes_error, segments_error }: Omit<Discovery, 'status'>): NotReadable[] {
  return [indexes_error, ...indexes.map(({ error }) => error), segments_error].filter((error) => error !== null);
}

function statusOf(discovery: Omit<Discovery, 'status'>): Discovery['status'] {
  const nothing = discovery.indexes_error !== null && discovery.segments_error !== null;
  return nothing || errorsOf(discovery).some(({ withheld }) => !withheld) ? 'failed' : 'ok';
}

/**
 * Lists everything in the tenant that a stream can read.
 * @throws {ServiceError} if the service does not respond at all
 */
export async function discoverService(explorer: ServiceBrowser, options: DiscoverOptions): Promise<Discovery> {
  const listed = await listIndexes(explorer);
  const indexes: DiscoveredIndex[] = [];
  // One after the other: discovery must not take the budget from the runs.
  for (const index of listed.items) indexes.push(await discoverIndex(explorer, index, options));
  const segments = await listSegments(explorer);
  const discovered = {
    base_url: explorer.service.baseUrl,
    tenant_id: explorer.service.tenantId,
    indexes,
    indexes_error: listed.error,
    segments: segments.items.map(({ id, name = null, status = null }) => ({ id, name, status })),
    segments_error: segments.error,
  };
  return { status: statusOf(discovered), ...discovered };
}

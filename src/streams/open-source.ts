import { type RequestMeter, type ServiceClient, ServiceError } from '../client/client.js';
import { indexesPageOperation, readIndexes } from '../client/profile-api.js';
import type { StreamConfig } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { indexProfilesSource } from './index-profiles.js';
import { indexesSource } from './indexes.js';
import type { ListSource } from './list-source.js';

export interface SourceContext {
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
}

interface IndexName {
  readonly id: string;
  readonly name?: string | undefined;
}

/** All indexes that the key may see; undefined where it may see none, which need not keep it from reading one. */
async function listIndexes({ client, signal, meter }: SourceContext): Promise<IndexName[] | undefined> {
  const found: IndexName[] = [];
  let token: string | null = null;
  try {
    do {
      const operation = indexesPageOperation({ nextToken: token, limit: 100, withTotal: false });
      const page: { data: IndexName[]; nextToken: string | null } = await client.send(operation, readIndexes, {
        signal,
        meter,
      });
      found.push(...page.data);
      token = page.nextToken;
    } while (token !== null && found.length < 10_000);
    return found;
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return undefined;
    throw error;
  }
}

/** The id of the index that is called so, by id or by name. */
async function resolveIndex(context: SourceContext, idOrName: string): Promise<string> {
  const indexes = await listIndexes(context);
  if (indexes === undefined || indexes.some(({ id }) => id === idOrName)) return idOrName;
  const named = indexes.filter(({ name }) => name === idOrName);
  const [only] = named;
  if (named.length === 1 && only !== undefined) return only.id;
  if (named.length > 1) {
    throw new CdsyncError(`${named.length} indexes are called "${idOrName}"`, {
      code: 'index_ambiguous',
      hint: `give the id instead: ${named.map(({ id }) => id).join(', ')}`,
    });
  }
  const names = indexes.flatMap(({ id, name }) => (name === undefined ? [id] : [name, id]));
  const near = nearest(idOrName, names);
  const shown = near.length > 0 ? near : names.slice(0, 10);
  throw new CdsyncError(`the tenant has no index "${idOrName}"`, {
    code: 'index_not_found',
    hint:
      shown.length === 0
        ? 'it has no indexes at all: check `tenant_id`'
        : `did you mean ${shown.map((name) => `"${name}"`).join(' or ')}?`,
  });
}

/**
 * The list that a stream reads.
 * @throws {CdsyncError} `index_not_found` (with the nearest names), `index_ambiguous`, and what the client throws
 */
export async function openSource(config: StreamConfig, context: SourceContext): Promise<ListSource> {
  switch (config.source) {
    case 'indexes':
      return indexesSource();
    case 'index_profiles':
      return indexProfilesSource(await resolveIndex(context, config.index));
  }
}

import type { Index } from '../api/profile-api.js';
import { ServiceError } from '../api/service-error.js';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';
import { readAllIndexes, type ServiceAsk } from './whole-list.js';

/** Undefined if the API key may not list indexes; it may still be allowed to read one. */
async function visibleIndexes(ask: ServiceAsk): Promise<Index[] | undefined> {
  try {
    return await readAllIndexes(ask);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return undefined;
    throw error;
  }
}

/**
 * The id of the index that has this id or name.
 * @throws {CdsyncError} `index_not_found` with the nearest names, `index_ambiguous`, `page_loop`; what the client throws
 */
export async function resolveIndex(ask: ServiceAsk, idOrName: string): Promise<string> {
  const indexes = await visibleIndexes(ask);
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
  const near = nearest(
    idOrName,
    indexes.flatMap(({ id, name }) => (name === undefined ? [id] : [name, id])),
  );
  const all = indexes.slice(0, 10).map(({ id, name = id }) => `"${name}"`);
  throw new CdsyncError(`the tenant has no index "${idOrName}"`, {
    code: 'index_not_found',
    hint:
      all.length === 0
        ? 'it has no indexes at all: check `tenant_id`'
        : near.length === 0
          ? `it has ${all.join(', ')}${indexes.length > all.length ? ' and others: cdsync discover' : ''}`
          : `did you mean ${near.map((name) => `"${name}"`).join(' or ')}?`,
  });
}

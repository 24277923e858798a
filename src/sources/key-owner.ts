import { getIndexOperation } from '../api/profile-api.js';
import { collectionStatsOperation } from '../api/realtime-api.js';
import { ServiceError } from '../api/service-error.js';
import { CdsyncError } from '../core/errors.js';
import type { KeyOwner } from './source.js';
import type { ServiceAsk } from './whole-list.js';

/** The collection that profiles are asked for in. */
export function collectionOwner(id: string): KeyOwner {
  return {
    operation: () => collectionStatsOperation(id),
    unknown: (reason) =>
      new CdsyncError(
        `nothing was found in collection "${id}", and the service does not show that it exists: ${reason}`,
        {
          code: 'collection_unknown',
          hint: 'is `collection` right? If so, real-time features may not be enabled for this tenant, or the API key needs profile-collections:read. The last snapshot stays',
        },
      ),
  };
}

/** The index that profiles are asked for in. */
export function indexOwner(id: string): KeyOwner {
  return {
    operation: () => getIndexOperation(id),
    unknown: (reason) =>
      new CdsyncError(`nothing was found in index "${id}", and the service does not show that it exists: ${reason}`, {
        code: 'index_not_found',
        hint: 'is `index` right? cdsync discover lists the indexes of the tenant. The last snapshot stays',
      }),
  };
}

/**
 * Makes sure that what keys were asked of exists. Call it if the service has none of them: where a collection does not exist, or
 * real-time features are off, it responds 404 to every key (published notes, Real-time API).
 * @throws {CdsyncError} `collection_unknown`, `index_not_found`; errors of the client
 */
export async function requireOwner(
  { client, signal, meter }: ServiceAsk,
  { operation, unknown }: KeyOwner,
): Promise<void> {
  try {
    await client.send(operation(), () => undefined, { signal, meter });
  } catch (error) {
    if (error instanceof ServiceError && (error.status === 404 || error.status === 403)) throw unknown(error.message);
    throw error;
  }
}

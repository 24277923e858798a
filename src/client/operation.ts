import { CdsyncError } from '../core/errors.js';
import type { ApiGroup } from '../core/service-options.js';

/** One request of the service's API; what builds them is pure. */
export interface Operation {
  readonly group: ApiGroup;
  readonly method: 'GET' | 'POST';
  /** What follows the prefix of the group; each segment made by {@link pathSegment}. */
  readonly path: string;
  /** Names and values as they are: the client encodes them. */
  readonly query?: readonly (readonly [string, string])[];
  /** Sent as JSON. */
  readonly body?: unknown;
  /** In its place: JSON that is sent as it stands, for numbers that JavaScript would change. */
  readonly json?: string;
  /** What messages call it; must hold no personal values: `GET /indexes/{id}/profiles`. */
  readonly label: string;
  /** Another version than that of the group; null sends none (specification, section 9). */
  readonly version?: string | null;
  /** Whether sending it twice is the same as once; default: what is read by GET is. */
  readonly idempotent?: boolean;
  /** What the API key needs for it, where that is published. */
  readonly permissions?: readonly string[];
}

/** What one stream has cost so far; the client counts up. */
export interface RequestMeter {
  /** Sent, retries included. */
  requests: number;
  retries: number;
  /** Answers of status 429. */
  throttled: number;
  /** Bodies after decompression. */
  bytes: number;
}

/**
 * An id as one segment of a path. Text that UTF-8 cannot hold (a lone surrogate) is sent as U+FFFD.
 * @throws {CdsyncError} `invalid_id` for the ids that a URL cannot carry as a segment: they would ask for something else
 */
export function pathSegment(id: string): string {
  if (id === '' || id === '.' || id === '..') {
    throw new CdsyncError(`"${id}" cannot be an id`, {
      code: 'invalid_id',
      hint: 'ids that are empty, "." or ".." cannot be part of a URL: take them out of the list',
    });
  }
  return encodeURIComponent(id.toWellFormed());
}

/** Names and values as a query string without its question mark; right for any name and any value. */
export function encodeQuery(query: Iterable<readonly [string, string]>): string {
  let encoded = '';
  for (const [name, value] of query) {
    if (encoded !== '') encoded += '&';
    encoded += `${encodeURIComponent(name.toWellFormed())}=${encodeURIComponent(value.toWellFormed())}`;
  }
  return encoded;
}

const prefixes: Record<ApiGroup, string> = { profile: '/api', management: '/api', realtime: '/prof' };

/** Prefix, path and query of an operation (specification, section 4.1). */
export function requestTarget({ group, path, query }: Operation): string {
  const target = prefixes[group] + path;
  return query === undefined || query.length === 0 ? target : `${target}?${encodeQuery(query)}`;
}

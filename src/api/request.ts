import { CdsyncError } from '../core/errors.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import type { ServiceResponse } from './response-reader.js';

/** One request to the service's API. The functions that build operations are pure. */
export interface Operation {
  readonly group: ApiGroup;
  readonly method: 'GET' | 'POST';
  /** The path after the prefix of the group; each segment made by {@link pathSegment}. */
  readonly path: string;
  /** Names and values, not encoded: the client does that. */
  readonly query?: readonly (readonly [string, string])[];
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Replaces `body`: JSON text that is sent unchanged, for numbers that JavaScript would alter. */
  readonly json?: string;
  /** Its name in messages, without personal values: `GET /indexes/{id}/profiles`. */
  readonly label: string;
  /** An API version other than the group's; null sends none (specification, section 9). */
  readonly version?: string | null;
  /** Whether sending it twice has the same effect as sending it once. Default: true for GET. */
  readonly idempotent?: boolean;
  /** Its response has no content: any status from 200 to 299 says that the request was taken, whatever the body. */
  readonly returnsNothing?: boolean;
  /** The permissions that the API key needs, if they are published. */
  readonly permissions?: readonly string[];
  /** A permission that does as well as all of them. */
  readonly permissionInstead?: string;
}

/** The requests of one stream so far; the client adds to it. */
export interface RequestCounts {
  /** Sent, retries included. */
  requests: number;
  retries: number;
  /** Responses of status 429. */
  throttled: number;
  /** Bodies after decompression. */
  bytes: number;
}

/** Whether a URL can carry an id as a segment of its path: `.` and `..` would address something else. */
export function isAskable(id: string): boolean {
  return id !== '' && id !== '.' && id !== '..';
}

/**
 * An id as one segment of a path. Text that UTF-8 cannot hold (a lone surrogate) is sent as U+FFFD.
 * @throws {CdsyncError} `invalid_id` for ids that a URL cannot carry as a segment: they would address something else
 */
export function pathSegment(id: string): string {
  if (!isAskable(id)) {
    throw new CdsyncError(`"${id}" cannot be an id`, {
      code: 'invalid_id',
      hint: 'ids that are empty, "." or ".." cannot be part of a URL: take them out of the list',
    });
  }
  return encodeURIComponent(id.toWellFormed());
}

/** Encodes any names and values as a query string, without the question mark. */
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

/** Whether sending a request twice does no more than sending it once. */
export function isIdempotent({ method, idempotent }: Operation): boolean {
  return idempotent ?? method === 'GET';
}

/** Whether an operation only reads: then no status but 200 has a result. */
export function isRead({ group, method, path }: Operation): boolean {
  return method === 'GET' || (group === 'realtime' && path.startsWith('/lookup/'));
}

/** The header lists of requests; each is made once for a token, a version, and with or without a body. */
export class RequestHeaders {
  readonly #service: Pick<ServiceOptions, 'tenantId' | 'tenantHeader' | 'apiVersions'>;
  readonly #userAgent: string;
  readonly #lists = new Map<string, readonly string[]>();
  #token = '';

  constructor(service: Pick<ServiceOptions, 'tenantId' | 'tenantHeader' | 'apiVersions'>, userAgent: string) {
    this.#service = service;
    this.#userAgent = userAgent;
  }

  /** The version that an operation is sent with; null sends none (specification, sections 4.1 and 9). */
  versionOf({ group, version }: Operation): string | null {
    if (version !== undefined) return version;
    return group === 'realtime' ? null : this.#service.apiVersions[group];
  }

  /** Names and values in turn. Callers must not change the list. */
  list(version: string | null, withBody: boolean, token: string): readonly string[] {
    if (token !== this.#token) {
      this.#token = token;
      this.#lists.clear();
    }
    const key = `${withBody} ${version}`;
    let list = this.#lists.get(key);
    if (list === undefined) {
      list = this.#make(version, withBody);
      this.#lists.set(key, list);
    }
    return list;
  }

  #make(version: string | null, withBody: boolean): readonly string[] {
    const { tenantHeader, tenantId } = this.#service;
    const list = ['authorization', `Bearer ${this.#token}`, tenantHeader, tenantId];
    if (version !== null) list.push('api-version', version);
    if (withBody) list.push('content-type', 'application/json');
    list.push('accept', 'application/json', 'accept-encoding', 'gzip', 'user-agent', this.#userAgent);
    return list;
  }
}

function bare(path: string): string {
  return path.replace(/\/$/, '');
}

/** Statuses by which a router sends a request on to another path. A 303 would mean that it was answered already. */
const sendsOn = new Set([301, 302, 307, 308]);

/**
 * Paths that the service has with a trailing slash, or without one, where it redirects from the other spelling (published notes,
 * Everywhere). Such a redirect is a router's and does nothing else, so that any request may be sent once more, and is: to the same
 * address, whatever the redirect names.
 */
export class PathSpellings {
  readonly #baseUrl: URL;
  /** By the label of an operation: whether its path ends in a slash. */
  readonly #learned = new Map<string, boolean>();

  constructor(baseUrl: string) {
    this.#baseUrl = new URL(baseUrl);
  }

  /** The operation with its path as the service wants it. */
  spelled(operation: Operation): Operation {
    const slash = this.#learned.get(operation.label);
    if (slash === undefined) return operation;
    return { ...operation, path: bare(operation.path) + (slash ? '/' : '') };
  }

  /**
   * Looks at a redirect.
   * @param target path and query that were sent, without the path of the base URL
   * @returns whether it points to the other spelling, which is then learned
   */
  learn({ label }: Operation, target: string, { status, headers: { location } }: ServiceResponse): boolean {
    if (!sendsOn.has(status) || typeof location !== 'string') return false;
    const asked = new URL(bare(this.#baseUrl.pathname) + target, this.#baseUrl);
    if (!URL.canParse(location, asked.href)) return false;
    const { hostname, pathname } = new URL(location, asked);
    if (hostname !== asked.hostname || pathname === asked.pathname || bare(pathname) !== bare(asked.pathname))
      return false;
    this.#learned.set(label, pathname.endsWith('/'));
    return true;
  }
}

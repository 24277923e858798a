import type { Operation } from './request.js';
import type { ServiceResponse } from './response-reader.js';

function bare(path: string): string {
  return path.replace(/\/$/, '');
}

/** Statuses by which a router sends a request on to another path. A 303 would mean that it was answered already. */
const sendsOn = new Set([301, 302, 307, 308]);

/**
 * Paths that the service has with a trailing slash, or without one, where it redirects from the other spelling (published facts,
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
   * @returns whether it leads to the other spelling, which is then learned
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

import { hashText } from '../data/hash.js';
import type { ProfileList } from '../data/index-source.js';
import { flag, type Query, single } from '../http/query.js';
import { badRequest } from '../http/response.js';

/** The form of `next_token` on the last page. Deployments use all three. */
export type EndForm = 'absent' | 'empty' | 'null';

const endings: Readonly<Record<EndForm, string>> = {
  absent: '',
  empty: ',"next_token":""',
  null: ',"next_token":null',
};

/** The start of a page's envelope (specification, section 2.5). */
export const opening = '{"data":[';

/** The rest of the envelope, after the records. A null token ends the list; a null total is left out. */
export function closing(token: string | null, end: EndForm, total: number | null): string {
  const next = token === null ? endings[end] : `,"next_token":"${token}"`;
  return `]${next}${total === null ? '' : `,"total":${total}`}}`;
}

/** The parameters that every list takes (specification, sections 4.1 and 4.2). */
export interface Paging {
  readonly limit: number;
  readonly token: string | undefined;
  readonly withTotal: boolean;
  /** Whether the request asks for the total; some lists have it anyway. */
  readonly asksTotal: boolean;
}

function parseLimit(text: string | undefined, max: number, unasked: number): number {
  if (text === undefined) return unasked;
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit < 1) throw badRequest('limit must be a positive integer');
  if (limit > max) throw badRequest(`limit must be at most ${max}`);
  return limit;
}

/** How the paging of a list differs from other lists. */
export interface PagingRules {
  /** A larger `limit` is refused. */
  readonly maxLimit: number;
  /** Records of a page if the request has no `limit`. Default 25 (specification, section 8). */
  readonly defaultLimit?: number;
  /** The list has a total even if the request does not ask for it. Default false. */
  readonly alwaysTotal?: boolean;
}

/** @throws {ServiceError} 400 */
export function parsePaging(query: Query, { maxLimit, defaultLimit = 25, alwaysTotal = false }: PagingRules): Paging {
  const asksTotal = flag(query, 'with_total');
  const token = single(query, 'next_token');
  if (token === '') throw badRequest('next_token must not be empty: leave it out to get the first page');
  return {
    limit: parseLimit(single(query, 'limit'), maxLimit, defaultLimit),
    token,
    withTotal: asksTotal || alwaysTotal,
    asksTotal,
  };
}

/** A list that is answered page by page. */
export interface Listing extends ProfileList {
  /** Binds page tokens to this list. */
  readonly id: number;
  readonly maxRecordBytes: number;
  write(position: number, target: Uint8Array, offset: number): number;
}

const ids = new Map<string, number>();
const maxIds = 5000;

/** The id of a list; the same text gives the same id in every process. */
export function listingId(text: string): number {
  let id = ids.get(text);
  if (id === undefined) {
    id = hashText(text);
    if (ids.size === maxIds) ids.clear();
    ids.set(text, id);
  }
  return id;
}

/** A listing of a few values, written as JSON. */
export function listingOf(name: string, values: readonly unknown[]): Listing {
  const texts = values.map((value) => Buffer.from(JSON.stringify(value)));
  return {
    id: listingId(name),
    maxRecordBytes: Math.max(0, ...texts.map(({ length }) => length)),
    total: () => texts.length,
    select: (from, limit) => {
      const positions = [...texts.keys()].slice(from, from + limit);
      return { positions, count: positions.length, next: from + limit < texts.length ? from + limit : -1 };
    },
    write: (position, target, offset) => {
      const text = texts[position] as Buffer;
      target.set(text, offset);
      return offset + text.length;
    },
  };
}

import { flag, type Query, single } from '../http/query.js';
import { badRequest } from '../http/service-error.js';

const defaultLimit = 25;

/** The parameters that every list takes (specification, sections 4.1 and 4.2). */
export interface Paging {
  readonly limit: number;
  readonly token: string | undefined;
  readonly withTotal: boolean;
}

function parseLimit(text: string | undefined, max: number): number {
  if (text === undefined) return defaultLimit;
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit < 1) throw badRequest('limit must be a positive integer');
  if (limit > max) throw badRequest(`limit must be at most ${max}`);
  return limit;
}

/** In what a list differs from the others. */
export interface PagingRules {
  /** A larger `limit` is refused. */
  readonly maxLimit: number;
  /** Tells the total whether or not it is asked for. */
  readonly alwaysTotal?: boolean;
}

/** @throws {ServiceError} 400 */
export function parsePaging(query: Query, { maxLimit, alwaysTotal = false }: PagingRules): Paging {
  const withTotal = flag(query, 'with_total') || alwaysTotal;
  const token = single(query, 'next_token');
  if (token === '') throw badRequest('next_token must not be empty: leave it out to get the first page');
  return { limit: parseLimit(single(query, 'limit'), maxLimit), token, withTotal };
}

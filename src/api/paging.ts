import { z } from '../core/zod.js';
import { MalformedBodyError } from './service-error.js';

/** The parameters that every list of the service takes (specification, section 4.1). */
export interface PageRequest {
  /** Null or empty asks for the first page. */
  readonly nextToken?: string | null;
  /** Most records in the page. */
  readonly limit?: number;
  /** Asks for the total, which can be expensive for the service. */
  readonly withTotal?: boolean;
}

export type QueryParameters = (readonly [string, string])[];

/** The query parameters of a list. An empty or null token must not be sent (specification, section 4.1). */
export function paging({ nextToken, limit, withTotal }: PageRequest): QueryParameters {
  const query: QueryParameters = [];
  if (limit !== undefined) query.push(['limit', String(limit)]);
  if (nextToken) query.push(['next_token', nextToken]);
  if (withTotal === true) query.push(['with_total', 'true']);
  return query;
}

/** The parameters that are defined, under the service's names. */
export function definedParameters(parameters: Readonly<Record<string, string | undefined>>): QueryParameters {
  return Object.entries(parameters).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
}

/** One page of a list (specification, section 2.5). */
export interface Page<T> {
  readonly data: T[];
  /** Null on the last page. */
  readonly nextToken: string | null;
  /** Null if the service did not count. */
  readonly total: number | null;
}

/** Parses a body as JSON. @throws {MalformedBodyError} */
export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (error) {
    // Its message quotes the body, which may hold personal values.
    throw new MalformedBodyError(`it is not JSON (${error instanceof Error ? error.name : 'error'})`);
  }
}

/** A decoder for one object that has at least the given fields. @throws {MalformedBodyError} */
export function objectDecoder<T>(schema: z.ZodType<T>): (body: Buffer) => T {
  return (body) => {
    const result = schema.safeParse(parseJson(body));
    if (result.success) return result.data;
    throw new MalformedBodyError(`it is not as specified at ${places(result.error)}`);
  };
}

const statuses = ['status', 'code', 'status_code', 'statusCode'] as const;
const errors = ['error', 'errors'] as const;
/** Members of a body that is an error, although its status is 200. */
export const errorMembers = [...statuses, ...errors, 'success', 'message'] as const;

function isEmpty(value: unknown): boolean {
  return !value || (typeof value === 'object' && Object.keys(value).length === 0);
}

/**
 * Which error the envelope of a page states, in words without any of its values; undefined if it is a page. A page without `data`
 * is an empty one.
 */
export function statedError(member: (name: string) => unknown, hasData: boolean): string | undefined {
  const status = statuses.map((name) => Number(member(name))).find((number) => number >= 400 && number <= 599);
  if (status !== undefined) return `an error with the status ${status}`;
  const isError =
    errors.some((name) => !isEmpty(member(name))) ||
    member('success') === false ||
    /^(error|fail(ed|ure)?)$/i.test(String(member('status'))) ||
    (!hasData && !isEmpty(member('message')));
  return isError ? 'an error' : undefined;
}

const nextPageNames = new Set(['nexttoken', 'nextpagetoken', 'nextpage', 'nextcursor', 'nexturl', 'nextlink', 'next']);
const morePagesNames = new Set(['hasmore', 'hasnext', 'hasnextpage', 'hasmorepages']);
const pagingNames = new Set(['paging', 'pagination', 'meta', 'metadata', 'links', 'pageinfo', 'cursors']);

/**
 * Whether a member of an envelope other than `next_token` says that another page follows, as gateways and other versions do: a list
 * that ends without `next_token`, or with an empty one, would then be cut short.
 * @param read gives the value; called only for names that may say so
 */
export function namesNextPage(name: string, read: () => unknown, isNested = false): boolean {
  const plain = name.toLowerCase().replace(/[_-]/g, '');
  if (morePagesNames.has(plain)) return read() === true;
  if (nextPageNames.has(plain)) {
    const value = read();
    return (typeof value === 'string' && value.trim() !== '') || typeof value === 'number';
  }
  if (isNested || !pagingNames.has(plain)) return false;
  const value = read();
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).some(([inner, its]) => namesNextPage(inner, () => its, true))
  );
}

/** A decoder for one page of objects; unknown fields are kept. @throws {MalformedBodyError} */
export function pageDecoder<T>(item: z.ZodType<T>): (body: Buffer) => Page<T> {
  const decode = objectDecoder(
    z.looseObject({
      data: z.array(item).nullish(),
      // Services mark the end of a list in three ways: the token is absent, empty or null.
      next_token: z.string().nullish(),
    }),
  );
  return (body) => {
    const envelope = decode(body);
    const { data, next_token, total } = envelope;
    const error = statedError((name) => (envelope as Record<string, unknown>)[name], data != null);
    if (error !== undefined) throw new MalformedBodyError(`it is ${error}`);
    if (data == null && Object.values(envelope).some(Array.isArray))
      throw new MalformedBodyError('it has no list "data"');
    const following = Object.entries(envelope).find(([name, value]) => namesNextPage(name, () => value))?.[0];
    if (following !== undefined && !next_token)
      throw new MalformedBodyError(`it has no next_token, but "${following}" says that another page follows`);
    return { data: data ?? [], nextToken: next_token || null, total: countOf(total) };
  };
}

/** A total as the service states it; null if it is no count. */
export function countOf(total: unknown): number | null {
  return Number.isSafeInteger(total) && (total as number) >= 0 ? (total as number) : null;
}

function places({ issues }: z.ZodError): string {
  return issues
    .slice(0, 3)
    .map(({ path }) => (path.length === 0 ? 'its root' : path.join('.')))
    .join(', ');
}

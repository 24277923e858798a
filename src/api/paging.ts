import { z } from 'zod';
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

/** A decoder for one page of objects; unknown fields are kept. @throws {MalformedBodyError} */
export function pageDecoder<T>(item: z.ZodType<T>): (body: Buffer) => Page<T> {
  const decode = objectDecoder(
    z.looseObject({
      data: z.array(item).nullish(),
      // Services mark the end of a list in three ways: the token is absent, empty or null.
      next_token: z.string().nullish(),
      total: z.number().nullish(),
    }),
  );
  return (body) => {
    const envelope = decode(body);
    const { data, next_token, total } = envelope;
    const error = statedError((name) => (envelope as Record<string, unknown>)[name], data != null);
    if (error !== undefined) throw new MalformedBodyError(`it is ${error}`);
    if (data == null && Object.values(envelope).some(Array.isArray))
      throw new MalformedBodyError('it has no list "data"');
    return { data: data ?? [], nextToken: next_token || null, total: total ?? null };
  };
}

function places({ issues }: z.ZodError): string {
  return issues
    .slice(0, 3)
    .map(({ path }) => (path.length === 0 ? 'its root' : path.join('.')))
    .join(', ');
}

import { z } from 'zod';
import { MalformedBodyError } from './service-error.js';

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

/** A decoder for one page of objects; unknown fields are kept. @throws {MalformedBodyError} */
export function pageDecoder<T>(item: z.ZodType<T>): (body: Buffer) => Page<T> {
  const decode = objectDecoder(
    z.object({
      data: z.array(item),
      // Services mark the end of a list in three ways: the token is absent, empty or null.
      next_token: z.string().nullish(),
      total: z.number().nullish(),
    }),
  );
  return (body) => {
    const { data, next_token, total } = decode(body);
    return { data, nextToken: next_token || null, total: total ?? null };
  };
}

function places({ issues }: z.ZodError): string {
  return issues
    .slice(0, 3)
    .map(({ path }) => (path.length === 0 ? 'its root' : path.join('.')))
    .join(', ');
}

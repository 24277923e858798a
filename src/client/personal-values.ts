import type { Operation } from './operation.js';

/** What a request carries that may be about a person, and that a service may repeat in its messages. */
export function* personalValues({ group, query, body }: Operation): Generator<string> {
  for (const [name, value] of query ?? []) {
    if (name.startsWith('filter[') || (group === 'realtime' && !technical.has(name))) yield value;
  }
  if (group === 'realtime') yield* texts(body);
}

const technical = new Set(['limit', 'next_token', 'enrich', '_enrich', 'scale', 'after', 'before']);

/** All strings in a JSON value, but for the names of members. */
function* texts(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) yield* texts(member);
}

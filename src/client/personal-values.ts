import type { Operation } from './operation.js';

/** The values of a request that may be about a person, and that a service may repeat in its messages. */
export function* personalValues({ group, path, query, body, json }: Operation): Generator<string> {
  // A key of a lookup may have any name, also that of another operation's parameter.
  const isLookup = group === 'realtime' && path.startsWith('/lookup/');
  for (const [name, value] of query ?? []) {
    const isKey = isLookup ? name !== '_enrich' : group === 'realtime' && !technical.has(name);
    if (name.startsWith('filter[') || isKey) yield value;
  }
  if (group === 'realtime') yield* texts(json === undefined ? body : JSON.parse(json));
}

const technical = new Set(['limit', 'next_token', 'with_total', 'enrich', 'scale', 'after', 'before']);

/** All strings in a JSON value, except the names of members. */
function* texts(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) yield* texts(member);
}

import { streamNameSchema } from '../../config/names.js';

const longest = 48;

function cut(text: string, length: number): string {
  return text.slice(0, length).replace(/_+$/, '');
}

function* candidates(text: string, kind: string): Generator<string> {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^[_0-9]+|_+$/g, '');
  const base = plain === '' ? kind : plain;
  yield cut(base, longest);
  yield `${cut(base, longest - kind.length - 1)}_${kind}`;
  for (let number = 2; ; number += 1) {
    const ending = `_${number}`;
    yield `${cut(base, longest - ending.length)}${ending}`;
  }
}

/**
 * A stream's name, made from the service's name for its source: allowed in a configuration, and not yet taken.
 * @param kind what the stream holds; added to names that are not allowed or taken: `profiles`
 */
export function streamNameFor(text: string, kind: 'profiles' | 'members', taken: ReadonlySet<string>): string {
  for (const name of candidates(text, kind)) {
    if (!taken.has(name) && streamNameSchema.safeParse(name).success) return name;
  }
  throw new TypeError('there is always another number');
}

import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Keychain } from '../engine/inspect/lookup-profiles.js';
import { usageError } from './output.js';

const example = 'for example: email=ann@example.com';

/** Keys by name. @throws {CdsyncError} `usage` that names the place and shows no value */
function keychain(pairs: readonly (readonly [name: string, value: unknown])[], where: string): Keychain {
  const keys = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (name === '') throw usageError(`${where}: a key has no name`, example);
    if (typeof value !== 'string') throw usageError(`${where}: the value of a key is not a text`, 'put it into quotes');
    if (value === '') throw usageError(`${where}: a key has no value`, example);
    if (keys.has(name)) throw usageError(`${where}: a key is given twice`, 'give each key once');
    keys.set(name, value);
  }
  if (keys.size === 0) throw usageError(`${where}: there is no key`, example);
  return Object.fromEntries(keys);
}

/** Words of the form `key=value` as the keys of one lookup. @throws {CdsyncError} `usage` */
export function keysOfWords(words: readonly string[], where: string): Keychain {
  const pairs = words.map((word): [string, string] => {
    const at = word.indexOf('=');
    if (at < 0) throw usageError(`${where}: a word is not key=value`, example);
    return [word.slice(0, at), word.slice(at + 1)];
  });
  return keychain(pairs, where);
}

function keysOfJson(line: string, where: string): Keychain {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // The parser's own message would quote the line.
    throw usageError(`${where}: it is not JSON`, 'one object of keys a line, such as {"email": "ann@example.com"}');
  }
  return keychain(Object.entries(value as object), where);
}

/**
 * One line as the keys of one lookup: a JSON object, or words `key=value` with white space between them. A value may
 * contain spaces.
 * @throws {CdsyncError} `usage`
 */
export function keysOfLine(line: string, where: string): Keychain {
  const text = line.trim();
  return text.startsWith('{') ? keysOfJson(text, where) : keysOfWords(text.split(/\s+(?=[^\s=]+=)/), where);
}

/** The lookups of an input stream, one per line; empty lines ask for nothing. @throws {CdsyncError} `usage` */
export async function* keysOfStream(input: Readable): AsyncGenerator<Keychain, void> {
  let number = 0;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    const text = number === 1 ? line.replace(/^\uFEFF/, '') : line;
    if (text.trim() !== '') yield keysOfLine(text, `line ${number}`);
  }
}

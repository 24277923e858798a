import { createHash } from 'node:crypto';
import type { IdentifierRules } from '../sdk/capabilities.js';

function digits(name: string, count: number): string {
  return createHash('sha256').update(name, 'utf8').digest('hex').slice(0, count);
}

function cut(text: string, bytes: number): string {
  let kept = '';
  let length = 0;
  for (const character of text) {
    length += Buffer.byteLength(character);
    if (length > bytes) break;
    kept += character;
  }
  return kept;
}

/** Gives names that a destination accepts. The same names in the same order always get the same results. */
export class TargetNames {
  readonly #rules: IdentifierRules;
  readonly #taken = new Set<string>();

  constructor(rules: IdentifierRules = {}) {
    this.#rules = rules;
  }

  /** Keeps a name that is allowed and free. Otherwise replaces forbidden characters and appends digits of its hash. */
  give(name: string): string {
    const { maxBytes = 63, allowed, begins, ends } = this.#rules;
    const written = [...name.replaceAll('\0', '_')]
      .map((character) => (allowed === undefined || allowed.test(character) ? character : '_'))
      .join('');
    const legible = begins === undefined || begins.test(written) ? written : `_${written}`;
    const stands = legible === name && name !== '' && ends?.test(name) !== false && !this.#isTaken(name);
    const plain = stands ? name : `${legible}_${digits(name, 6)}`;
    const given = Buffer.byteLength(plain) <= maxBytes ? plain : `${cut(legible, maxBytes - 9)}_${digits(name, 8)}`;
    this.#taken.add(this.#folded(given));
    return given;
  }

  #folded(name: string): string {
    return this.#rules.ignoresCase === false ? name : name.toLowerCase();
  }

  #isTaken(name: string): boolean {
    return this.#taken.has(this.#folded(name)) || (this.#rules.reserved ?? []).includes(name.toLowerCase());
  }
}

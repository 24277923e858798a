import { digits, firstBytes } from '../columns/column-name.js';
import type { IdentifierRules } from '../sdk/identifier-rules.js';

/** Gives names that a destination accepts. The same names in the same order always get the same results. */
export class TargetNames {
  readonly #rules: IdentifierRules;
  readonly #taken = new Set<string>();

  /** @param taken names that are not given */
  constructor(rules: IdentifierRules = {}, taken: Iterable<string> = []) {
    this.#rules = rules;
    for (const name of taken) this.#taken.add(this.folded(name));
  }

  /** Keeps a name that is allowed and free. Otherwise replaces forbidden characters and appends digits of its hash. */
  give(asked: string): string {
    const { maxBytes = 63, allowed, begins, ends, inSmallLetters } = this.#rules;
    const name = inSmallLetters === true ? asked.toLowerCase() : asked;
    const written = [...name.replaceAll('\0', '_')]
      .map((character) => (allowed === undefined || allowed.test(character) ? character : '_'))
      .join('');
    const legible = begins === undefined || begins.test(written) ? written : `_${written}`;
    const fits = Buffer.byteLength(name) <= maxBytes;
    const isFree = fits && legible === name && name !== '' && ends?.test(name) !== false && !this.#isTaken(name);
    const chosen = isFree ? name : this.#numbered(name, legible, maxBytes);
    this.#taken.add(this.folded(chosen));
    return chosen;
  }

  /** A free name with digits of the whole name's hash. */
  #numbered(name: string, legible: string, maxBytes: number): string {
    for (let attempt = 0; ; attempt += 1) {
      const hashed = attempt === 0 ? name : `${name}\n${attempt}`;
      const short = `${legible}_${digits(hashed, 6)}`;
      const chosen =
        Buffer.byteLength(short) <= maxBytes ? short : `${firstBytes(legible, maxBytes - 9)}_${digits(hashed, 8)}`;
      if (!this.#isTaken(chosen)) return chosen;
    }
  }

  /** The form in which the destination compares names. */
  folded(name: string): string {
    return this.#rules.ignoresCase === false ? name : (this.#rules.fold?.(name) ?? name.toLowerCase());
  }

  #isTaken(name: string): boolean {
    return this.#taken.has(this.folded(name)) || (this.#rules.reserved ?? []).includes(name.toLowerCase());
  }
}

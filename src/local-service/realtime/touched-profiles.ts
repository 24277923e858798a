import { mix, unmix } from '../data/hash.js';
import type { TouchedProfile } from './touched-profile.js';

/** Profiles that events have made stand behind all that days can bring. */
export const madeFrom = 2 ** 40;

const madeId = /^pe-[0-9a-f]{8}$/;
const keyText = (name: string, value: string) => JSON.stringify([name, value]);
const none: readonly number[] = [];

/** The profiles of a collection that events have touched or made, by their position in it. */
export class TouchedProfiles {
  readonly #idKey: number;
  readonly #profiles = new Map<number, TouchedProfile>();
  /** A key can have several holders in the course of time: the earlier ones have been deleted. */
  readonly #holders = new Map<string, number[]>();
  #made = 0;

  constructor(idKey: number) {
    this.#idKey = idKey;
  }

  /** In the order in which they were first touched. */
  get all(): readonly TouchedProfile[] {
    return [...this.#profiles.values()];
  }

  /** How many of them events have made. */
  get made(): number {
    return this.#made;
  }

  get(position: number): TouchedProfile | undefined {
    return this.#profiles.size === 0 ? undefined : this.#profiles.get(position);
  }

  /** The id of the next one that an event makes. */
  nextId(): string {
    return `pe-${mix(this.#made ^ this.#idKey)
      .toString(16)
      .padStart(8, '0')}`;
  }

  /** Position of one that an event has made, by its id; -1 where there is none. */
  findMade(id: string): number {
    if (!madeId.test(id)) return -1;
    const index = (unmix(Number.parseInt(id.slice(3), 16)) ^ this.#idKey) >>> 0;
    return index < this.#made ? madeFrom + index : -1;
  }

  holders(name: string, value: string): readonly number[] {
    return this.#holders.get(keyText(name, value)) ?? none;
  }

  /** Takes a profile in, with its links; the position of one that was made is the next one. */
  add(position: number, touched: TouchedProfile): void {
    this.#profiles.set(position, touched);
    if (position >= madeFrom) this.#made += 1;
    for (const [name, value] of touched.links) this.#hold(position, name, value);
  }

  /** Gives a profile that is here one more key. */
  link(position: number, name: string, value: string): void {
    this.#profiles.get(position)?.links.push([name, value]);
    this.#hold(position, name, value);
  }

  #hold(position: number, name: string, value: string): void {
    const text = keyText(name, value);
    const holders = this.#holders.get(text);
    if (holders === undefined) this.#holders.set(text, [position]);
    else holders.push(position);
  }
}

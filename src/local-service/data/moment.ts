import { mix } from './hash.js';

/** Shares of what a day changes, each from 0 to 1. */
export interface DayShares {
  /** Of the profiles that were there the day before. */
  readonly updated: number;
  /** Of the profiles that there were at the start. */
  readonly inserted: number;
  /** Of the profiles that were there the day before. */
  readonly deleted: number;
}

/** What a day brings where nobody says otherwise. */
export const usualDay: DayShares = { updated: 0.01, inserted: 0.002, deleted: 0.001 };

/** A phase is one of so many steps from 0 to 1. */
export const phases = 1 << 20;

interface Birth {
  readonly first: number;
  readonly updates: number;
  readonly deaths: number;
}

const deathSalt = 0x3c6ef372;
const unit = 0x1_0000_0000;

/**
 * The profiles of one tenant as they are after some days. Which of them a day touches is arithmetic, so that neither
 * memory nor time grows with days: every profile has two phases between 0 and 1. It is updated on each day in which the
 * sum of all days' shares passes a whole number less its phase, and it is gone for good from the day on in which the share
 * that has died passes its other phase.
 */
export class Moment {
  /** Numbers from 0 to before this have been profiles. */
  readonly end: number;
  readonly #key: number;
  readonly #initial: number;
  readonly #updates: number;
  readonly #deaths: number;
  readonly #births: Birth[] = [];
  /** The same as above for those that have been there from the start, which is what must be fast. */
  readonly #wholeUpdates: number;
  readonly #onceMoreFrom: number;
  readonly #goneBelow: number;

  constructor(key: number, initial: number, days: readonly DayShares[]) {
    let [updates, deaths, end] = [0, 0, initial];
    for (const { updated, inserted, deleted } of days) {
      updates += updated;
      deaths += (1 - deaths) * deleted;
      const born = Math.round(initial * inserted);
      if (born > 0) this.#births.push({ first: end, updates, deaths });
      end += born;
    }
    this.#key = key ^ deathSalt;
    this.#initial = initial;
    this.#updates = updates;
    this.#deaths = deaths;
    this.#wholeUpdates = Math.floor(updates);
    this.#onceMoreFrom = (1 - (updates - this.#wholeUpdates)) * phases;
    this.#goneBelow = deaths * unit;
    this.end = end;
  }

  get anyGone(): boolean {
    return this.#goneBelow > 0;
  }

  /** How often a profile has been updated that has this phase, an integer from 0 to below {@link phases}. */
  updates(number: number, phase: number): number {
    if (number < this.#initial) return phase >= this.#onceMoreFrom ? this.#wholeUpdates + 1 : this.#wholeUpdates;
    const share = phase / phases;
    return Math.floor(this.#updates + share) - Math.floor((this.#birth(number)?.updates ?? 0) + share);
  }

  /** Whether a profile with a number below {@link end} has been deleted. */
  gone(number: number): boolean {
    if (this.#goneBelow === 0) return false;
    const draw = mix(mix(number) ^ this.#key);
    if (number < this.#initial) return draw < this.#goneBelow;
    const born = this.#birth(number)?.deaths ?? 0;
    return born + ((1 - born) * draw) / unit < this.#deaths;
  }

  /** By halving: this is asked for every number that a day has brought. */
  #birth(number: number): Birth | undefined {
    let [from, to] = [0, this.#births.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#births[middle] as Birth).first <= number) from = middle + 1;
      else to = middle;
    }
    return this.#births[from - 1];
  }
}

import { mix } from './hash.js';

/** What a day changes, as shares from 0 to 1. */
export interface DayShares {
  /** Share of the profiles that existed the day before. */
  readonly updated: number;
  /** Share of the number of profiles before the first day. */
  readonly inserted: number;
  /** Share of the profiles that existed the day before. */
  readonly deleted: number;
}

/** The default shares of a day. */
export const usualDay: DayShares = { updated: 0.01, inserted: 0.002, deleted: 0.001 };

/** The number of steps from 0 to 1 that a phase can take. */
const phases = 1 << 20;

interface Birth {
  readonly first: number;
  readonly updates: number;
  readonly deaths: number;
}

const deathSalt = 0x3c6ef372;
const unit = 0x1_0000_0000;

/**
 * The profiles of one tenant after some days. Arithmetic decides which profiles a day touches, so that neither memory nor
 * time grows with the number of days. Every profile has two phases between 0 and 1. A day updates the profile when the
 * running sum of `updated` shares, plus the first phase, reaches the next whole number. The profile is deleted for good
 * when the total share of deleted profiles passes the second phase.
 */
export class Moment {
  /** One more than the highest profile number so far, deleted profiles included. */
  readonly end: number;
  readonly #key: number;
  readonly #initial: number;
  readonly #updates: number;
  readonly #deaths: number;
  readonly #births: Birth[] = [];
  /** Computed in advance for the profiles that exist from the start: this path must be fast. */
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

  /** How often the days have updated a profile. @param phase an integer from 0, less than {@link phases} */
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

  /** A binary search: a full reading calls this for every profile that a day has inserted. */
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

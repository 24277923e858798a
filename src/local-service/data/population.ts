import { hashText, mix, unmix } from './hash.js';
import { type DayOfIdentities, Identities } from './identities.js';
import { tierOf, variants } from './segments.js';

/** The changes of one day, as shares from 0 to 1. */
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

const ranks = new Uint16Array(variants);
const tierOfVariant = new Uint8Array(variants);
const byTier: number[][] = [];
for (let variant = 0; variant < variants; variant += 1) {
  const tier = tierOf(variant);
  tierOfVariant[variant] = tier;
  byTier[tier] ??= [];
  ranks[variant] = byTier[tier].length;
  byTier[tier].push(variant);
}

const moveSalt = 0x7f4a7c15;
const codeSalt = 0x1b873593;

/** The variant that all segments of a profile have before its first update. */
export function variantOf(code: number): number {
  return code & (variants - 1);
}

/** The phase that decides on which days a profile is updated: see {@link Moment}. */
export function phaseOf(code: number): number {
  return code >>> 12;
}

/** The profiles of one tenant: each is a pure function of a key, its number and the days that have passed. */
export class Population {
  readonly #key: number;
  readonly #codeKey: number;
  readonly #initial: number;
  #days: readonly DayShares[] = [];
  #moment: Moment;
  #identities = new Identities();

  constructor(key: number, initial: number) {
    this.#key = key;
    this.#codeKey = key ^ codeSalt;
    this.#initial = initial;
    this.#moment = new Moment(key, initial, []);
  }

  /** The present moment; each {@link moveTo} replaces the object. */
  get moment(): Moment {
    return this.#moment;
  }

  get days(): number {
    return this.#days.length;
  }

  /** The owners of e-mails and phones at the present moment. */
  get identities(): Identities {
    return this.#identities;
  }

  /** @param days all days since the start, not only the new ones @returns the merges and splits of each new day */
  moveTo(days: readonly DayShares[]): DayOfIdentities[] {
    if (!this.#days.every((day, at) => day === days[at])) {
      this.#days = [];
      this.#moment = new Moment(this.#key, this.#initial, []);
      this.#identities = new Identities();
    }
    const passed: DayOfIdentities[] = [];
    for (let day = this.#days.length; day < days.length; day += 1) {
      const after = new Moment(this.#key, this.#initial, days.slice(0, day + 1));
      passed.push(this.#identities.pass(day, this.#then(this.#moment), this.#then(after)));
      this.#moment = after;
    }
    this.#days = days;
    return passed;
  }

  #then(moment: Moment) {
    return { end: moment.end, version: (number: number) => this.version(number, moment) };
  }

  /** The 32 bits of a profile's id. */
  idOf(number: number): number {
    return mix(number ^ this.#key);
  }

  /** The number that belongs to an id; any 32 bits give a number, whether or not such a profile exists. */
  numberOf(id: number): number {
    return (unmix(id) ^ this.#key) >>> 0;
  }

  /** How often a profile has been updated; -1 if it does not exist yet, or is deleted. */
  version(number: number, moment = this.#moment): number {
    if (number >= moment.end || moment.gone(number)) return -1;
    return moment.updates(number, phaseOf(this.codeOf(number)));
  }

  /** 32 bits that hold the profile's first variant and its phase. */
  codeOf(number: number): number {
    return mix(number ^ this.#codeKey);
  }

  /** The activity variant of a profile after updates. @param variant its first one: {@link variantOf} its code */
  activityAt(number: number, version: number, variant: number): number {
    const draw = this.#draw(number, version);
    // One update in four draws a new tier, each with its usual frequency.
    const tier = tierOfVariant[(draw & 3) === 0 ? (draw >>> 8) & (variants - 1) : variant] as number;
    const candidates = byTier[tier] as number[];
    // Neighbouring versions take different candidates, so that every update changes the record.
    return candidates[((ranks[variant] as number) + version) % candidates.length] as number;
  }

  /** The address variant of a profile after updates: one in 16 moves the profile, until the next. */
  addressAt(number: number, version: number, variant: number): number {
    const draw = this.#draw(number, version);
    return ((draw >>> 2) & 15) === 0 ? draw >>> 20 : variant;
  }

  #draw(number: number, version: number): number {
    return mix(mix(number ^ moveSalt) + this.#key + version);
  }
}

/** The profiles of a tenant, before the first day. */
export function tenantPeople(tenant: string, seed: number, profiles: number): Population {
  return new Population(hashText(`${tenant} ${seed}`), profiles);
}

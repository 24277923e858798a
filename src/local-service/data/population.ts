import { hashText, mix, unmix } from './hash.js';
import { type DayShares, Moment } from './moment.js';
import { tierOf, variants } from './segments.js';

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

  /** @param days all days since the start, not only the new ones */
  moveTo(days: readonly DayShares[]): void {
    this.#days = days;
    this.#moment = new Moment(this.#key, this.#initial, days);
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

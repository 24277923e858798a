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

/** The variant of all segments that a profile has before its first update. */
export function variantOf(code: number): number {
  return code & (variants - 1);
}

/** When in the sum of all days' shares a profile is updated. */
export function phaseOf(code: number): number {
  return code >>> 12;
}

/** The profiles of one tenant: a pure function of a key, a number and the days that have passed. */
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

  /** As it is now; another object after each change. */
  get moment(): Moment {
    return this.#moment;
  }

  get days(): number {
    return this.#days.length;
  }

  /** As it is after all of these days. */
  moveTo(days: readonly DayShares[]): void {
    this.#days = days;
    this.#moment = new Moment(this.#key, this.#initial, days);
  }

  /** The 32 bits that a profile's id consists of. */
  idOf(number: number): number {
    return mix(number ^ this.#key);
  }

  /** The number of a profile; any 32 bits give one. */
  numberOf(id: number): number {
    return (unmix(id) ^ this.#key) >>> 0;
  }

  /** How often a profile has been updated; -1 where there is none of this number, or no more. */
  version(number: number, moment = this.#moment): number {
    if (number >= moment.end || moment.gone(number)) return -1;
    return moment.updates(number, phaseOf(this.codeOf(number)));
  }

  /** 32 bits that the profile's first variant and its phase are made of. */
  codeOf(number: number): number {
    return mix(number ^ this.#codeKey);
  }

  /** The activity of a profile that has been updated; the first variant is {@link variantOf} its code. */
  activityAt(number: number, version: number, variant: number): number {
    const draw = this.#draw(number, version);
    // One update in four changes the tier, to any of them in proportion to their frequency.
    const tier = tierOfVariant[(draw & 3) === 0 ? (draw >>> 8) & (variants - 1) : variant] as number;
    const candidates = byTier[tier] as number[];
    // The step differs between all versions near each other, so that no update leaves a record as it was.
    return candidates[((ranks[variant] as number) + version) % candidates.length] as number;
  }

  /** The address of a profile that has been updated: one update in 16 has it move, until the next. */
  addressAt(number: number, version: number, variant: number): number {
    const draw = this.#draw(number, version);
    return ((draw >>> 2) & 15) === 0 ? draw >>> 20 : variant;
  }

  #draw(number: number, version: number): number {
    return mix(mix(number ^ moveSalt) + this.#key + version);
  }
}

/** The people of a tenant, before the first day. */
export function tenantPeople(tenant: string, seed: number, profiles: number): Population {
  return new Population(hashText(`${tenant} ${seed}`), profiles);
}

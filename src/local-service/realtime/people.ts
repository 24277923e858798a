import { hashText } from '../data/hash.js';
import { type Population, variantOf } from '../data/population.js';
import { type Attributes, activity, address, person, variants } from '../data/segments.js';
import { names } from '../data/words.js';

/** The identity keys of a profile: for each key name its values (specification, section 2.3). */
export type Links = Readonly<Record<string, readonly string[]>>;

/** The times of a profile, in milliseconds since the Unix epoch. */
export interface ProfileTimes {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly tickedAt: number;
}

export const dayMs = 86_400_000;
const epoch = Date.UTC(2025, 0, 15, 9, 30);
const idPattern = /^p-[0-9a-f]{8}$/;
const tickMs = 300_000;

/** How to find a person by the value of a key: its digits are the person's number, or the 32 bits of the id. */
const keyPatterns: Readonly<Record<string, { readonly pattern: RegExp; readonly by: 'number' | 'id' }>> = {
  email: { pattern: /^m(\d{10})\./, by: 'number' },
  phone: { pattern: /^\+1(\d{10})$/, by: 'id' },
  loyalty_id: { pattern: /^LM(\d{10})$/, by: 'number' },
};

const tenDigits = (value: number) => String(value).padStart(10, '0');

/** The people of the indexes, as real-time profiles: pure functions of the seed, a number and a version. */
export class PersonGenerator {
  readonly population: Population;
  readonly #seed: number;
  #activities: readonly Attributes[] | undefined;

  constructor(population: Population, seed: number) {
    this.population = population;
    // The indexes use the same seed, so that people have the same names and tiers there.
    this.#seed = hashText(`bodies ${seed}`);
  }

  idOf(number: number): string {
    return `p-${this.population.idOf(number).toString(16).padStart(8, '0')}`;
  }

  /** The number of an id's person, whether or not the person exists yet; undefined if it is not a person's id. */
  numberOf(id: string): number | undefined {
    return idPattern.test(id) ? this.population.numberOf(Number.parseInt(id.slice(2), 16)) : undefined;
  }

  links(number: number): Links {
    const contact = this.population.identities.contactOf(number);
    const id = this.population.idOf(contact);
    const [, , mailbox] = names[variantOf(this.population.codeOf(contact)) % names.length] as (typeof names)[number];
    const address = `m${tenDigits(contact)}.${mailbox}@example`;
    return {
      email: this.#hasSecondAddress(id) ? [`${address}.com`, `${address}.net`] : [`${address}.com`],
      phone: [`+1${tenDigits(id)}`],
      loyalty_id: [`LM${tenDigits(number)}`],
    };
  }

  /** How many e-mail addresses {@link links} would give: counting needs no texts. */
  emails(number: number): number {
    return this.#hasSecondAddress(this.population.idOf(this.population.identities.contactOf(number))) ? 2 : 1;
  }

  /** The number of the person with this key, whether or not the person exists yet; undefined if no person has it. */
  withKey(name: string, value: string): number | undefined {
    const form = Object.hasOwn(keyPatterns, name) ? keyPatterns[name] : undefined;
    const digits = form?.pattern.exec(value)?.[1];
    if (form === undefined || digits === undefined || Number(digits) > 0xffff_ffff) return undefined;
    const first = form.by === 'id' ? this.population.numberOf(Number(digits)) : Number(digits);
    const number = name === 'loyalty_id' ? first : this.population.identities.holderOf(first);
    return number !== undefined && this.links(number)[name]?.includes(value) ? number : undefined;
  }

  times(number: number, version: number): ProfileTimes {
    const id = this.population.idOf(number);
    const { joined_at: joined } = person(this.#seed, variantOf(this.population.codeOf(number)));
    // Each version is later than the one before, so that every update changes the profile.
    const updatedAt = epoch + version * dayMs + (id % dayMs);
    return { createdAt: Date.parse(String(joined)), updatedAt, tickedAt: updatedAt + (id % tickMs) };
  }

  attributes(number: number, version: number, enrich: boolean): Attributes {
    const variant = variantOf(this.population.codeOf(number));
    const { first_name, last_name, language, email_opt_in } = person(this.#seed, variant);
    const home = version === 0 ? variant : this.population.addressAt(number, version, variant);
    const { country, city, zip } = address(this.#seed, home);
    const done = this.activityVariant(number, version);
    const plain = { first_name, last_name, language, email_opt_in, country, city, zip, ...this.done(done) };
    return enrich ? { ...plain, ...this.#enriched(done) } : plain;
  }

  /** The activity variant of a person. */
  activityVariant(number: number, version: number): number {
    const variant = variantOf(this.population.codeOf(number));
    return version === 0 ? variant : this.population.activityAt(number, version, variant);
  }

  /** The attributes of an activity variant that segments read. */
  done(variant: number): Attributes {
    const { tier, points, orders, ltv, last_order_at, is_active } = this.#activity(variant);
    const last = last_order_at === undefined ? {} : { last_purchase_at: last_order_at };
    return { tier, points, purchases: orders, total_spent: ltv, ...last, is_active };
  }

  #enriched(variant: number): Attributes {
    const { churn_risk, average_order, preferred_store, tags } = this.#activity(variant);
    return { churn_risk, average_purchase: average_order, preferred_store, tags };
  }

  #activity(variant: number): Attributes {
    this.#activities ??= Array.from({ length: variants }, (_, one) => activity(this.#seed, one));
    return this.#activities[variant] as Attributes;
  }

  #hasSecondAddress(id: number): boolean {
    return (id & 7) === 0;
  }
}

import { mix } from './hash.js';

/** The profiles before or after a day. */
interface ProfilesThen {
  /** One more than the highest number so far. */
  readonly end: number;
  /** How often a profile has been updated; -1 if there is none. */
  version(number: number): number;
}

/** Two profiles of a merge, in which `from` is deleted, or of a split, in which `into` is new. By number. */
export interface Pair<Id = number> {
  readonly from: Id;
  readonly into: Id;
}

/** The merges and splits of one day. */
export interface DayOfIdentities {
  readonly merges: readonly Pair[];
  readonly splits: readonly Pair[];
}

/** Of each kind on one day. Only deleted, inserted and updated profiles take part, so that the day changes as many as without them. */
const maxPairs = 5;
/** A search for profiles ends after this many, so that a day costs the same for every number of profiles. */
const maxSearched = 20_000;
const mergeSalt = 0x5bd1e995;

/** The owners of e-mails and phones, since merges and splits have moved them. No two profiles have the same. */
export class Identities {
  readonly #contacts = new Map<number, number>();
  readonly #holders = new Map<number, number | undefined>();

  /** The number of the profile that first had the e-mail and the phone of this one. */
  contactOf(number: number): number {
    return this.#contacts.get(number) ?? number;
  }

  /** The profile that has the e-mail and the phone that this one had first; undefined if a merge has ended them. */
  holderOf(contact: number): number | undefined {
    return this.#holders.has(contact) ? this.#holders.get(contact) : contact;
  }

  /** Lets a day pass: half of the deleted profiles, at most, go into an updated one, and some updated ones lose a part to a new one. */
  pass(day: number, before: ProfilesThen, after: ProfilesThen): DayOfIdentities {
    const start = mix(mix(day) ^ mergeSalt) % Math.max(1, before.end);
    const gone = (number: number) => before.version(number) >= 0 && after.version(number) < 0;
    const updated = (number: number) => before.version(number) >= 0 && after.version(number) > before.version(number);
    const deleted = search(before.end, start, 2 * maxPairs, gone);
    const from = deleted.slice(0, Math.ceil(deleted.length / 2));
    const born = Array.from({ length: Math.min(maxPairs, after.end - before.end) }, (_, at) => before.end + at);
    const changed = search(before.end, start, from.length + born.length, updated);
    const merges = from.slice(0, changed.length).map((number, at) => ({ from: number, into: changed[at] as number }));
    const parted = changed.slice(merges.length);
    const splits = parted.map((number, at) => ({ from: number, into: born[at] as number }));
    for (const pair of merges) this.#merge(pair);
    for (const pair of splits) this.#split(pair);
    return { merges, splits };
  }

  #merge({ from, into }: Pair): void {
    this.#holders.set(this.contactOf(into), undefined);
    this.#give(this.contactOf(from), into);
  }

  /** The new profile takes the e-mail and phone of the other, which gets the ones that the new profile would have had. */
  #split({ from, into }: Pair): void {
    this.#give(this.contactOf(from), into);
    this.#give(into, from);
  }

  #give(contact: number, number: number): void {
    this.#contacts.set(number, contact);
    this.#holders.set(contact, number);
  }
}

/** The first profiles of a kind, from a number onwards and then from the first number. */
function search(end: number, start: number, count: number, is: (number: number) => boolean): number[] {
  const numbers: number[] = [];
  for (let step = 0; step < Math.min(end, maxSearched) && numbers.length < count; step += 1) {
    const number = (start + step) % end;
    if (is(number)) numbers.push(number);
  }
  return numbers;
}

import { Dice } from '../incremental-runs/dice.js';

export interface Person {
  readonly id: string;
  readonly email: string;
  readonly tier: string;
  readonly ltv: number;
}

export type People = ReadonlyMap<string, Person>;

/** Events of a run, beside the changes at the service. */
export const events = [
  'run',
  'run',
  'run',
  'full',
  'only people',
  'only ledger',
  'fails',
  'killed',
  'held, approved',
  'held, discarded',
  'held',
  'people held',
] as const;
export type DayEvent = (typeof events)[number];

const tiers = ['basic', 'silver', 'vip'];

/** People at the service: before each run some are merged, split, changed, added and removed. */
export class Population {
  readonly dice: Dice;
  #people: Map<string, Person>;
  #next = 0;

  constructor(seed: number, count: number) {
    this.dice = new Dice(seed);
    this.#people = new Map();
    for (let n = 0; n < count; n += 1) this.#add(`person${n}@example.com`);
  }

  get people(): People {
    return new Map(this.#people);
  }

  #add(email: string): void {
    const id = `p${this.#next}`;
    this.#next += 1;
    this.#people.set(id, { id, email, tier: this.dice.pick(tiers), ltv: this.dice.whole(1000) / 4 });
  }

  #any(): Person {
    return this.dice.pick([...this.#people.values()]);
  }

  remove(id: string): void {
    this.#people.delete(id);
  }

  change(): void {
    // Two profiles become one, which has the e-mail of the one that is gone.
    for (let n = this.dice.whole(3); n > 0; n -= 1) {
      const [gone, kept] = [this.#any(), this.#any()];
      if (gone.id === kept.id) continue;
      this.#people.delete(gone.id);
      this.#people.set(kept.id, { ...kept, email: gone.email });
    }
    // One becomes two: a new one gets its e-mail.
    if (this.dice.once(2)) {
      const split = this.#any();
      this.#people.set(split.id, { ...split, email: `${split.id}-${this.#next}@example.org` });
      this.#add(split.email);
    }
    for (let n = this.dice.whole(5); n > 0; n -= 1) {
      const person = this.#any();
      this.#people.set(person.id, { ...person, tier: this.dice.pick(tiers), ltv: this.dice.whole(1000) / 4 });
    }
    if (this.dice.once(2)) this.#add(`new${this.#next}@example.com`);
    if (this.dice.once(3)) this.#people.delete(this.#any().id);
  }
}

/** An independent ledger: rows that each run's comparison of two lists adds, by their key. */
export class ExpectedLedger {
  readonly became = new Map<string, string>();
  readonly vips = new Set<string>();
  readonly left = new Map<string, string>();
  #seen: People | undefined;

  /** A commit of the ledger's streams over these people. */
  commit(people: People): void {
    const before = this.#seen ?? new Map<string, Person>();
    for (const old of before.values()) {
      for (const { id, email } of people.values())
        if (id !== old.id && email === old.email && before.get(id)?.email !== email)
          this.became.set(`${old.id}>${id}`, email);
      if (!people.has(old.id)) this.left.set(old.id, `${old.tier} ${old.ltv}`);
    }
    for (const { id, tier } of people.values()) if (tier === 'vip' && before.get(id)?.tier !== 'vip') this.vips.add(id);
    this.#seen = people;
  }
}

/** The streams of a ledger, in SQL. */
export const ledgerStreams = [
  {
    name: 'became',
    source: 'sql',
    key: ['old_id', 'new_id'],
    deletes: 'ignore',
    query: `select o.id as old_id, n.id as new_id, n.email from people__previous o join people n on n.email = o.email and n.id <> o.id
      where not exists (select 1 from people__previous b where b.id = n.id and b.email = n.email)`,
  },
  {
    name: 'new_vips',
    source: 'sql',
    key: ['id'],
    deletes: 'ignore',
    query: `select id from people where tier = 'vip' and id not in (select id from people__previous where tier = 'vip')`,
  },
  {
    name: 'departed',
    source: 'sql',
    key: ['id'],
    deletes: 'ignore',
    query: 'select o.id, o.tier, o.ltv from People__Previous as o anti join people using (id)',
  },
] as const;

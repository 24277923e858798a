import type { Dice } from '../incremental-runs/dice.js';
import type { Json } from './json-value.js';

/** Texts of one notation, which `strings: infer` makes values. */
const notations = {
  digits: (n: number) => String(n),
  price: (n: number) => `${n}.50`,
  day: (n: number) => `20${10 + (n % 80)}-0${1 + (n % 9)}-1${n % 10}`,
  german: (n: number) => `1${n % 10}.0${1 + (n % 9)}.20${10 + (n % 80)}`,
  moment: (n: number) => `20${10 + (n % 80)}-0${1 + (n % 9)}-1${n % 10} 10:20:3${n % 10}`,
  zulu: (n: number) => `20${10 + (n % 80)}-0${1 + (n % 9)}-1${n % 10}T10:20:3${n % 10}.120Z`,
  truth: (n: number) => (n % 3 > 0 ? 'True' : 'False'),
  // These stay texts.
  uuid: (n: number) => `${String(n).padStart(8, '0')}-e89b-12d3-a456-426614174000`,
  zeros: (n: number) => `00${n}`,
};
type Notation = keyof typeof notations;
type Form =
  | 'text'
  | 'int'
  | 'long'
  | 'big'
  | 'double'
  | 'bool'
  | 'list'
  | 'object'
  | 'wide'
  | 'nested'
  | 'json'
  | Notation;
const isNotation = (form: Form): form is Notation => form in notations;

/** The forms that a column's values may have in a later run. */
const next: Readonly<Record<Form, readonly Form[]>> = {
  text: ['text', 'text', 'list'],
  int: ['double', 'long', 'big', 'text', 'list'],
  long: ['double', 'int', 'text'],
  big: ['text', 'double'],
  double: ['text', 'object', 'long'],
  bool: ['text', 'int'],
  digits: ['text', 'price', 'int'],
  price: ['text', 'digits'],
  day: ['text', 'digits'],
  german: ['text'],
  moment: ['text'],
  zulu: ['text'],
  truth: ['text'],
  uuid: ['text'],
  zeros: ['text', 'digits'],
  wide: ['text'],
  nested: ['text'],
  list: ['text', 'object', 'json'],
  object: ['text', 'object', 'json'],
  json: ['text'],
};
const forms = Object.keys(next) as Form[];

/** Names that something else has, or that SQL could take for something else. */
const names = [
  '_sequence',
  '_key',
  't',
  's',
  'Score',
  'score',
  'mine',
  'amount',
  'amount__text',
  '_op',
  'käse "x"',
  'id2',
];

const levels = (depth: number) => (n: number) => `${'['.repeat(depth)}${n}${']'.repeat(depth)}`;
/** JSON of both kinds: also such as MariaDB (beyond 31 levels) and MySQL (beyond 100, and no number beyond a double) refuse. */
const mixedJson: readonly ((n: number) => Json)[] = [
  (n) => `[${n},"${n}"]`,
  (n) => `{"a":{"b":${n}}}`,
  (n) => `{"c":[${n}.25,1e400,true]}`,
  (n) => `[${n},1${n}00000000000000000001]`,
  levels(40),
  levels(120),
];

interface SourceColumn {
  readonly name: string;
  form: Form;
}

/** The records of the service, as a seed changes them from run to run. */
export class Source {
  readonly rows = new Map<string, Map<string, Json>>();
  readonly columns: SourceColumn[] = [];
  /** Every value that a key's attribute ever had. */
  readonly past = new Map<string, Set<Json>>();
  readonly gone: string[] = [];
  readonly #dice: Dice;
  #numbers = 1_000_000;
  #keys = 0;

  constructor(dice: Dice) {
    this.#dice = dice;
    for (const form of ['text', 'int', 'digits', dice.pick(['json', 'json', 'wide', 'nested'] as const)] as const)
      this.#column(form);
  }

  #column(form = this.#dice.pick(forms)): void {
    const free = names.filter((name) => !this.columns.some((column) => column.name === name));
    const odd = free.length > 0 && this.#dice.once(3) ? this.#dice.pick(free) : undefined;
    this.columns.push({ name: odd ?? `c${this.columns.length}`, form });
    this.fill();
  }

  /** Texts that name their column, so that one that a rule hides is found wherever it is. */
  #value({ name, form }: SourceColumn): Json {
    this.#numbers += 1;
    const n = this.#numbers;
    if (this.#dice.once(9)) return 'null';
    const tag = `z${name}~`;
    // One odd text among those that have a form.
    if (isNotation(form)) return JSON.stringify(this.#dice.once(40) ? 'n/a' : notations[form](n));
    switch (form) {
      case 'int':
        return String(n);
      case 'long':
        // No double holds it.
        return String(2n ** 53n + BigInt(2 * n + 1));
      case 'big':
        return `${n}00000000000000000000${n % 7}`;
      case 'double':
        return this.#dice.once(3) ? String(n) : `${n}.5`;
      case 'bool':
        return String(n % 3 > 0);
      case 'list':
        return `[${n},${n + 1}]`;
      case 'object':
        return this.#dice.once(2) ? `{"a":${n}}` : `{"a":${n},"b":"${n}"}`;
      case 'wide':
        return `{${Array.from({ length: 270 }, (_, member) => `"m${member}":${n + member}`)}}`;
      case 'nested':
        return `{"a":{"b":[{"c":${n}}]}}`;
      case 'json':
        return this.#dice.pick(mixedJson)(n);
      default:
        return JSON.stringify(
          this.#dice.pick([`${tag}${n}`, `${tag}${n} 'é"\\`, `${tag}\0${n}`, `${tag}${n}\n,;`, `  ${tag}${n} `, '']),
        );
    }
  }

  #set(key: string, column: SourceColumn): void {
    this.#put(key, column, this.#value(column));
  }

  #put(key: string, { name }: SourceColumn, value: Json): void {
    this.rows.get(key)?.set(name, value);
    const id = JSON.stringify([key, name]);
    this.past.set(id, (this.past.get(id) ?? new Set()).add(value));
  }

  /** New values of one column alone, in some rows. */
  renew(name: string): void {
    const column = this.columns.find((each) => each.name === name);
    if (column === undefined) return;
    for (const key of [...this.rows.keys()].slice(0, 3)) this.#set(key, column);
  }

  #insert(key: string): void {
    this.rows.set(key, new Map());
    for (const column of this.columns) this.#set(key, column);
  }

  /** One run's changes. */
  change(): void {
    const dice = this.#dice;
    if (dice.once(4)) this.#column();
    const drifting = this.columns.length > 0 && dice.once(3) ? dice.pick(this.columns) : undefined;
    if (drifting !== undefined) drifting.form = dice.pick(next[drifting.form]);
    for (const key of [...this.rows.keys()]) {
      const choice = dice.whole(10);
      if (choice === 0) this.remove(key);
      else if (choice < 4) for (const column of this.columns) if (dice.once(2)) this.#set(key, column);
    }
    const fresh = this.rows.size < 6 ? 10 : dice.whole(3);
    for (let index = 0; index < fresh; index += 1) {
      this.#keys += 1;
      this.#insert(dice.once(12) ? `k'"${this.#keys}` : `k${this.#keys}`);
    }
    if (this.gone.length > 0 && dice.once(4)) {
      const [back] = this.gone.splice(dice.whole(this.gone.length), 1);
      this.#insert(back as string);
    }
    this.fill();
  }

  /** Lets some record have each column, and those of JSON always values of both kinds: they are columns of no other type. */
  fill(): void {
    const [key, other] = this.rows.keys();
    for (const column of this.columns) {
      const values = [...this.rows.values()].map((row) => row.get(column.name));
      if (key !== undefined && values.every((value) => value === undefined)) this.#set(key, column);
      const begins = (kind: string) => values.some((value) => value?.startsWith(kind));
      if (column.form !== 'json' || key === undefined || other === undefined || (begins('[') && begins('{'))) continue;
      this.#put(key, column, `[${this.#numbers},"x"]`);
      this.#put(other, column, `{"a":{"b":${this.#numbers}}}`);
    }
  }

  remove(key: string, forGood = false): void {
    this.rows.delete(key);
    if (!forGood) this.gone.push(key);
  }

  /** As the service lists them. */
  records(): string[] {
    return [...this.rows].map(([key, values]) => {
      const attributes = [...values].map(([name, value]) => `${JSON.stringify(name)}:${value}`);
      return `{"id":${JSON.stringify(key)},"index_id":"made","attributes":{${attributes.join(',')}}}`;
    });
  }

  image(): Map<string, Map<string, Json>> {
    return new Map([...this.rows].map(([key, values]) => [key, new Map(values)]));
  }
}

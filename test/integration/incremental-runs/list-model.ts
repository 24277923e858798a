import type { Dice } from './dice.js';
import { anyStyle, type Bytes, plainStyle, type Style, type Value, write } from './record-text.js';

/** One appearance of a record on a page. */
export interface Copy {
  /** Undefined if the record is rejected, or if it is not settled which key it has. */
  readonly id: string | undefined;
  /** The number that changes with the record's values; text, as tables show it. */
  readonly version: string | null;
  readonly country: string | null;
  readonly text: Bytes;
}

interface Person extends Copy {
  readonly key: string;
  readonly attributes: readonly (readonly [string, Value])[];
  readonly style: Style;
}

export const countries = ['DE', 'US', 'Ü/1', 'a"b'] as const;
const separators = [
  '},{"id":"',
  '"},{"attributes":{',
  ']}',
  '"],"next_token":"x"',
  '{}',
  ',',
  '},\n{"id":"p1","index_id":"',
];
const numbers = [
  ['0', '-0', '0.0', '0e5'],
  ['1', '1.0', '1e0', '10e-1', '1.00'],
  ['250', '2.5e2', '250.0', '25E+1'],
  ['9007199254740993'],
  ['1.7976931348623157e308', '17976931348623157e292'],
  ['123456789012345678901234567890'],
];
const brokenTexts: readonly Bytes[] = ['"\xff"', '"a\xc3("', '"\\ud800"', '"\\udc00\\ud800 x"', '"\xed\xa0\x80"'];
const spelled = (bytes: Bytes): Value => ({ spelled: bytes });

function anyText(dice: Dice): string {
  const parts = ['Ada', 'ß', '😀', '/', '"', '\\', ' ', '\n', 'O’Neil', '\u0000', 'Zoë', '02134', 'null'];
  return Array.from({ length: dice.whole(4) }, () => dice.pick(parts)).join('');
}

/** Attributes of a new person. Each list has some that others lack. */
function anyAttributes(dice: Dice, wide: readonly string[]): [string, Value][] {
  const attributes: [string, Value][] = [['name', anyText(dice)]];
  if (!dice.once(10)) attributes.push(['score', spelled(dice.pick(dice.pick(numbers.slice(0, 3))))]);
  // Almost always a text that can be given back.
  attributes.push(['points', dice.once(60) ? dice.pick(['007', '', '1e2', '12.0']) : String(dice.whole(1000))]);
  if (dice.once(2)) attributes.push(['born', dice.once(60) ? '1990-02-30' : `19${10 + dice.whole(80)}-01-31`]);
  if (dice.once(2)) attributes.push(['note', dice.once(3) ? dice.pick(separators) : anyText(dice)]);
  if (dice.once(2)) attributes.push(['tags', Array.from({ length: dice.whole(3) }, () => anyText(dice))]);
  if (dice.once(3))
    attributes.push([
      'home',
      {
        members: [
          ['city', anyText(dice)],
          ['geo', { members: [['lat', spelled('1.5')]] }],
        ],
      },
    ]);
  if (dice.once(4))
    attributes.push([
      'orders',
      [
        {
          members: [
            ['n', spelled('1')],
            ['sku', 'x'],
          ],
        },
        { members: [] },
      ],
    ]);
  for (const name of wide)
    if (dice.once(2)) attributes.push([name, dice.pick<Value>([spelled('7'), spelled('7'), null])]);
  if (dice.once(12)) attributes.push(['broken', spelled(dice.pick(brokenTexts))]);
  return dice.shuffled(attributes);
}

/** Another value of one attribute, of another type now and then. */
function changedAttributes(attributes: Person['attributes'], dice: Dice): [string, Value][] {
  const at = dice.whole(attributes.length);
  const types: Value[] = [
    spelled(dice.pick(dice.pick(numbers))),
    anyText(dice),
    null,
    true,
    [],
    { members: [] },
    [spelled('1')],
  ];
  return attributes.flatMap(([name, value], index): [string, Value][] => {
    if (index !== at) return [[name, value]];
    if (dice.once(8)) return [];
    if (name === 'score') return [[name, spelled(dice.pick(dice.pick(dice.once(10) ? numbers : numbers.slice(0, 3))))]];
    if (dice.once(10)) return [[name, dice.pick(types)]];
    return [[name, typeof value === 'string' ? `${anyText(dice)}+` : value]];
  });
}

/** A list as it is in one run. It changes from run to run; a record that does not change keeps its bytes. */
export class ListModel {
  readonly index: string;
  readonly #house: Style;
  readonly #dice: Dice;
  #people: Person[] = [];
  #odd: Copy[] = [];
  #made = 0;
  #wide: string[] = [];

  constructor(index: string, size: number, dice: Dice) {
    this.index = index;
    this.#dice = dice;
    this.#house = dice.once(2) ? plainStyle : { ...anyStyle(dice), escaped: 0, mixed: false };
    for (let each = 0; each < size; each += 1) this.#people.push(this.#newPerson());
  }

  /** The records in the order of the list. */
  get copies(): Copy[] {
    const all: Copy[] = [...this.#people];
    for (const odd of this.#odd) all.splice(odd.text.length % (all.length + 1), 0, odd);
    return all;
  }

  /** Keys that the list has, or has had. */
  get keys(): string[] {
    return this.#people.map(({ key }) => key);
  }

  /** One day passes. */
  evolve(kind: 'nothing' | 'order' | 'little' | 'much'): void {
    const dice = this.#dice;
    if (kind === 'nothing') return;
    if (kind === 'order') {
      this.#people = dice.shuffled(this.#people);
      return;
    }
    const share = kind === 'much' ? 3 : 20;
    if (dice.once(6)) this.#wide.push(`new_${this.#wide.length}`);
    this.#people = this.#people.flatMap((person) => (dice.once(share) ? this.#aged(person) : [person]));
    const arrivals = dice.whole(kind === 'much' ? 8 : 2);
    for (let each = 0; each < arrivals; each += 1)
      this.#people.splice(dice.whole(this.#people.length + 1), 0, this.#newPerson());
    if (dice.once(4)) this.#odd = Array.from({ length: dice.whole(4) }, () => this.#oddCopy());
    if (dice.once(8)) this.#people = dice.shuffled(this.#people);
  }

  /** The same key with other values, or the same values written in another way. */
  variant({ id }: Copy, dice: Dice): Copy | undefined {
    const person = this.#people.find((each) => each.id === id && id !== undefined);
    if (person === undefined) return undefined;
    return dice.once(2) ? this.#rewritten(person) : this.#changed(person);
  }

  /** The record that the service returns for one key, perhaps formatted differently than in its pages; undefined if the list lacks it. */
  one(key: string, style: Style): Bytes | undefined {
    const person = this.#people.find((each) => each.key === key);
    if (person === undefined) return undefined;
    return style === plainStyle ? person.text : this.#written({ ...person, style }).text;
  }

  #aged(person: Person): Person[] {
    const dice = this.#dice;
    if (dice.once(5)) return [];
    return [dice.once(3) ? this.#rewritten(person) : this.#changed(person)];
  }

  #rewritten(person: Person): Person {
    return this.#written({ ...person, style: anyStyle(this.#dice) });
  }

  #changed(person: Person): Person {
    const attributes = changedAttributes(person.attributes, this.#dice);
    const country = this.#dice.once(6) ? this.#dice.pick(countries) : person.country;
    return this.#written({ ...person, attributes, country, version: String(Number(person.version) + 1) });
  }

  #newPerson(): Person {
    const dice = this.#dice;
    this.#made += 1;
    // Now and then a key is used again.
    const key = dice.once(10) ? `k${dice.whole(this.#made)}/"é` : `k${this.#made}/"é`;
    const taken = this.#people.some((each) => each.key === key) ? `${key}-${this.#made}` : key;
    const style = dice.once(8) ? anyStyle(dice) : this.#house;
    const country = dice.once(8) ? null : dice.pick(countries);
    const attributes = anyAttributes(dice, this.#wide);
    return this.#written({ id: taken, key: taken, version: String(this.#made * 1000), country, attributes, style });
  }

  #written(person: Omit<Person, 'text'>): Person {
    const { key, version, country, attributes, style } = person;
    const own: (readonly [string, Value])[] = [['v', spelled(String(version))], ...attributes];
    if (country !== null || key.length % 2 === 0) own.push(['country', country]);
    const members: [string, Value][] = [
      ['id', key],
      ['index_id', this.index],
      ['attributes', { members: own }],
    ];
    return { ...person, text: write({ members }, style, this.#dice) };
  }

  /** What no list should have: records that are rejected, that lack attributes, or that name a member twice. */
  #oddCopy(): Copy {
    const dice = this.#dice;
    this.#made += 1;
    const id = `odd-${this.#made}`;
    const index = this.index;
    const texts: readonly Bytes[] = [
      'null',
      '5',
      '"},{\\"id\\":\\""',
      '[{"id":"a"}]',
      '{}',
      `{"index_id":"${index}","attributes":{"v":1}}`,
      '{"id":5,"attributes":{}}',
      '{"id":null,"attributes":{"v":1}}',
      '{"id":"","attributes":{}}',
      '{"id":"odd-\\ud800","attributes":{"v":1}}',
      '{"id":"odd-\xff","attributes":{"v":1}}',
      `{"id":"${id}","attributes":5}`,
      `{"id":"${id}"}`,
      `{"id":"${id}","attributes":{}}`,
      `{"id":"${id}","attributes":null}`,
      `{"id":"odd-first","id":"${id}","attributes":{"v":1}}`,
      `{"id":"${id}","attributes":{"v":1,"v":2},"attributes":{"v":3}}`,
      `{"id":"${id}","index_id":"${index}","attributes":{"v":4},"updated_at":"2026-01-01","extra":{"a":[]}}`,
      `{ "attributes" : { "v" : 5 , "deep" : ${'['.repeat(40)}${']'.repeat(40)} } , "id" : "${id}" }`,
    ];
    return { id: undefined, version: null, country: null, text: dice.pick(texts) };
  }
}

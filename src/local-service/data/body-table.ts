import type { IndexDefinition } from './catalogue.js';
import { hashText } from './hash.js';
import {
  type AttributeForm,
  type Attributes,
  activity,
  address,
  person,
  servedAttributes,
  variants,
} from './segments.js';
import { names } from './words.js';

const quads = new Uint8Array(40_000);
const hexPairs = new Uint8Array(512);
for (let value = 0; value < 10_000; value += 1) {
  quads.set(Buffer.from(String(value).padStart(4, '0'), 'latin1'), value * 4);
}
for (let value = 0; value < 256; value += 1) {
  hexPairs.set(Buffer.from(value.toString(16).padStart(2, '0'), 'latin1'), value * 2);
}

function writeQuad(target: Uint8Array, offset: number, value: number): void {
  const at = value * 4;
  target[offset] = quads[at] as number;
  target[offset + 1] = quads[at + 1] as number;
  target[offset + 2] = quads[at + 2] as number;
  target[offset + 3] = quads[at + 3] as number;
}

/** Writes ten decimal digits of a number below 2^32. */
export function writeDigits(target: Uint8Array, offset: number, value: number): void {
  const high = Math.floor(value / 10_000);
  const top = Math.floor(high / 10_000);
  target[offset] = quads[top * 4 + 2] as number;
  target[offset + 1] = quads[top * 4 + 3] as number;
  writeQuad(target, offset + 2, high - top * 10_000);
  writeQuad(target, offset + 6, value - high * 10_000);
}

/** Writes eight hexadecimal digits of a number below 2^32. */
export function writeHex(target: Uint8Array, offset: number, value: number): void {
  for (let at = 0; at < 8; at += 2) {
    const pair = ((value >>> (24 - at * 4)) & 0xff) * 2;
    target[offset + at] = hexPairs[pair] as number;
    target[offset + at + 1] = hexPairs[pair + 1] as number;
  }
}

/** The profile that first had an e-mail and a phone: its number, the 32 bits of its id, and its person's variant. */
export interface Contact {
  readonly number: number;
  readonly id: number;
  readonly person: number;
}

/** Which variant of each segment a profile has. */
export interface Variants {
  readonly person: number;
  readonly address: number;
  readonly activity: number;
}

/** The parts of a record. */
interface RecordParts extends Variants {
  readonly number: number;
  readonly id: number;
  readonly contact: Contact;
}

/** The named attributes as JSON text, each after a comma. */
function shown(attributes: Attributes, names: readonly string[]): string {
  return names
    .filter((name) => attributes[name] !== undefined)
    .map((name) => `,${JSON.stringify(name)}:${JSON.stringify(attributes[name])}`)
    .join('');
}

const segments = { person, address, activity };
const variantNumbers = Array.from({ length: variants }, (_, variant) => variant);

/**
 * The records of one index, rendered once. To write a record, it copies some hundred bytes and then overwrites the few
 * digits that differ from profile to profile.
 */
export class BodyTable {
  readonly indexId: string;
  readonly maxRecordBytes: number;
  readonly #seed: number;
  readonly #head: Buffer;
  readonly #patches: readonly { readonly offset: number; readonly of: 'number' | 'contact' | 'scattered' }[];
  readonly #idOffset: number;
  readonly #mailbox: readonly Buffer[];
  /** After the name in the e-mail address. */
  readonly #person: readonly Buffer[];
  readonly #address: readonly Buffer[];
  readonly #activity: readonly Buffer[];
  /** Head and three segments of one variant: the record of a profile without updates. */
  readonly #whole: readonly Buffer[];
  readonly #columns = new Map<string, readonly (string | undefined)[]>();

  constructor(definition: IndexDefinition, seed: number, form: AttributeForm) {
    this.#seed = seed;
    this.indexId = `idx-${hashText(`${seed} ${definition.name}`).toString(36).padStart(7, '0')}`;
    const [template = '', afterMailbox = ''] = definition.ownAttributes.split('{mailbox}');
    const head = `{"id":"p-########","index_id":"${this.indexId}","attributes":{${template}`;
    this.#idOffset = head.indexOf('########');
    const patches: { offset: number; of: 'number' | 'contact' | 'scattered' }[] = [];
    let taken = 0;
    const plain = head.replaceAll(/\{(number|contact|scattered)\}/g, (placeholder, of, offset: number) => {
      patches.push({ offset: offset - taken, of });
      taken += placeholder.length - 10;
      return '0'.repeat(10);
    });
    this.#patches = patches;
    this.#head = Buffer.from(plain);
    const served = (attributes: Attributes) => servedAttributes(attributes, form);
    this.#mailbox = names.map(([, , mailbox]) => Buffer.from(mailbox));
    this.#person = variantNumbers.map((variant) =>
      Buffer.from(`@example.com"${afterMailbox}${shown(served(person(seed, variant)), definition.person)}`),
    );
    this.#address = variantNumbers.map((variant) =>
      Buffer.from(shown(served(address(seed, variant)), definition.address)),
    );
    this.#activity = variantNumbers.map((variant) =>
      Buffer.from(`${shown(served(activity(seed, variant)), definition.activity)}}}`),
    );
    this.#whole = variantNumbers.map((variant) => this.#join(variant));
    this.maxRecordBytes = [this.#mailbox, this.#person, this.#address, this.#activity].reduce(
      (sum, table) => sum + Math.max(...table.map(({ length }) => length)),
      this.#head.length,
    );
  }

  /** Writes the record of a profile without updates; returns the offset after it. */
  writeWhole(target: Uint8Array, offset: number, variant: number, number: number, id: number): number {
    const whole = this.#whole[variant] as Buffer;
    target.set(whole, offset);
    this.#patch(target, offset, number, { number, id });
    writeHex(target, offset + this.#idOffset, id);
    return offset + whole.length;
  }

  /** Writes a record whose segments come from several variants; returns the offset after it. */
  writeParts(target: Uint8Array, offset: number, parts: RecordParts): number {
    let end = offset;
    for (const segment of [
      this.#head,
      this.#mailbox[parts.contact.person % names.length] as Buffer,
      this.#person[parts.person] as Buffer,
      this.#address[parts.address] as Buffer,
      this.#activity[parts.activity] as Buffer,
    ]) {
      target.set(segment, end);
      end += segment.length;
    }
    this.#patch(target, offset, parts.number, parts.contact);
    writeHex(target, offset + this.#idOffset, parts.id);
    return end;
  }

  /** The variants of a segment whose attribute has this value, as text; undefined if no segment has the attribute. */
  matching(attribute: string, value: string): { segment: keyof Variants; mask: Uint8Array } | undefined {
    for (const segment of ['person', 'address', 'activity'] as const) {
      const values = this.#values(segment, attribute);
      if (values.some((other) => other !== undefined)) {
        return { segment, mask: Uint8Array.from(values, (other) => (other === value ? 1 : 0)) };
      }
    }
    return undefined;
  }

  #values(segment: keyof Variants, attribute: string): readonly (string | undefined)[] {
    const key = `${segment} ${attribute}`;
    let values = this.#columns.get(key);
    if (values === undefined) {
      values = variantNumbers.map((variant) => {
        const value = segments[segment](this.#seed, variant)[attribute];
        return value === undefined || value === null ? undefined : String(value);
      });
      this.#columns.set(key, values);
    }
    return values;
  }

  #join(variant: number): Buffer {
    const parts = [this.#person, this.#address, this.#activity].map((table) => table[variant] as Buffer);
    return Buffer.concat([this.#head, this.#mailbox[variant % names.length] as Buffer, ...parts]);
  }

  #patch(target: Uint8Array, offset: number, number: number, contact: Pick<Contact, 'number' | 'id'>): void {
    for (const patch of this.#patches) {
      const value = patch.of === 'number' ? number : patch.of === 'contact' ? contact.number : contact.id;
      writeDigits(target, offset + patch.offset, value);
    }
  }
}

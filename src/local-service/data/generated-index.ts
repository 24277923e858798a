import type { BodyTable, Variants } from './body-table.js';
import type { IndexDefinition } from './catalogue.js';
import type { Filters, IndexResource, IndexSource, ProfileList, Selected } from './index-source.js';
import { type Moment, type Population, phaseOf, variantOf } from './population.js';
import { variants } from './segments.js';

/** Which variants match, for each segment that a filter asks for. */
type Masks = Partial<Record<keyof Variants, Uint8Array>>;

const idPattern = /^p-[0-9a-f]{8}$/;
const created = Date.UTC(2025, 0, 15, 9, 30);
const dayMs = 86_400_000;
const maxLists = 2000;

/** An index over the profiles of a population; it stores nothing for a profile. */
export class GeneratedIndex implements IndexSource {
  readonly filterable: readonly string[];
  readonly maxRecordBytes: number;
  readonly #definition: IndexDefinition;
  readonly #bodies: BodyTable;
  readonly #population: Population;
  readonly #lists = new Map<string, ProfileList>();
  #described: { readonly days: number; readonly resource: IndexResource } | undefined;

  constructor(definition: IndexDefinition, bodies: BodyTable, population: Population) {
    this.#definition = definition;
    this.#bodies = bodies;
    this.#population = population;
    this.filterable = definition.filterable;
    this.maxRecordBytes = bodies.maxRecordBytes;
  }

  get resource(): IndexResource {
    const { days } = this.#population;
    if (this.#described?.days !== days) this.#described = { days, resource: this.#describe(days) };
    return this.#described.resource;
  }

  list(filters: Filters): ProfileList {
    const key = JSON.stringify(filters);
    let list = this.#lists.get(key);
    if (list === undefined) {
      const masks = filters.length === 0 ? undefined : this.#masks(filters);
      list = new GeneratedList(this.#definition, this.#population, masks);
      if (this.#lists.size === maxLists) this.#lists.clear();
      this.#lists.set(key, list);
    }
    return list;
  }

  write(position: number, target: Uint8Array, offset: number): number {
    const population = this.#population;
    const code = population.codeOf(position);
    const version = population.moment.updates(position, phaseOf(code));
    const id = population.idOf(position);
    const person = variantOf(code);
    const contact = population.identities.contactOf(position);
    if (version === 0 && contact === position) return this.#bodies.writeWhole(target, offset, person, position, id);
    return this.#bodies.writeParts(target, offset, {
      number: position,
      id,
      person,
      address: version === 0 ? person : population.addressAt(position, version, person),
      activity: version === 0 ? person : population.activityAt(position, version, person),
      contact: {
        number: contact,
        id: population.idOf(contact),
        person: variantOf(population.codeOf(contact)),
      },
    });
  }

  find(id: string): number {
    if (!idPattern.test(id)) return -1;
    const number = this.#population.numberOf(Number.parseInt(id.slice(2), 16));
    const { stride, offset } = this.#definition;
    return number % stride === offset && this.#population.version(number) >= 0 ? number : -1;
  }

  #describe(days: number): IndexResource {
    const { name, description } = this.#definition;
    return {
      id: this.#bodies.indexId,
      name,
      description,
      created_at: new Date(created).toISOString(),
      updated_at: new Date(created + days * dayMs).toISOString(),
    };
  }

  #masks(filters: Filters): Masks {
    const masks: Masks = {};
    for (const [attribute, value] of filters) {
      const matching = this.#bodies.matching(attribute, value);
      if (matching === undefined) throw new Error(`${this.#definition.name} has no attribute ${attribute}`);
      const { segment, mask } = matching;
      masks[segment] = masks[segment]?.map((bit, variant) => bit & (mask[variant] as number)) ?? mask;
    }
    return masks;
  }
}

/** Tries the numbers one by one: each takes some nanoseconds, so that even a narrow filter needs no table. */
class GeneratedList implements ProfileList {
  readonly #stride: number;
  readonly #offset: number;
  readonly #population: Population;
  readonly #masks: Masks | undefined;
  /** Which variants match a profile without updates, whose three segments have the same variant. */
  readonly #whole: Uint8Array;
  readonly #impossible: boolean;
  #positions = new Float64Array(128);
  #counted: { readonly moment: Moment; readonly total: number } | undefined;

  constructor({ stride, offset }: IndexDefinition, population: Population, masks: Masks | undefined) {
    this.#stride = stride;
    this.#offset = offset;
    this.#population = population;
    this.#masks = masks;
    const filters = Object.values(masks ?? {});
    this.#whole = Uint8Array.from({ length: variants }, (_, variant) =>
      filters.every((mask) => mask[variant]) ? 1 : 0,
    );
    this.#impossible = filters.some((mask) => !mask.includes(1));
  }

  total(): number {
    const { moment } = this.#population;
    if (this.#counted?.moment !== moment) this.#counted = { moment, total: this.#count(moment) };
    return this.#counted.total;
  }

  select(from: number, limit: number): Selected {
    if (this.#positions.length < limit) this.#positions = new Float64Array(limit);
    const positions = this.#positions;
    let count = 0;
    let next = this.#nextMatch(this.#align(from));
    while (next >= 0 && count < limit) {
      positions[count] = next;
      count += 1;
      next = this.#nextMatch(next + this.#stride);
    }
    return { positions, count, next };
  }

  #count(moment: Moment): number {
    if (this.#masks === undefined && !moment.anyGone) {
      return Math.max(0, Math.ceil((moment.end - this.#offset) / this.#stride));
    }
    let total = 0;
    for (let next = this.#nextMatch(this.#offset); next >= 0; next = this.#nextMatch(next + this.#stride)) total += 1;
    return total;
  }

  #align(from: number): number {
    const past = from % this.#stride;
    return from - past + this.#offset + (past > this.#offset ? this.#stride : 0);
  }

  /** The first number, at or after `from`, of a profile that matches; -1 if there is no match. */
  #nextMatch(from: number): number {
    if (this.#impossible) return -1;
    const { moment } = this.#population;
    const { end } = moment;
    for (let number = from; number < end; number += this.#stride) {
      if (this.#matches(number, moment) && !moment.gone(number)) return number;
    }
    return -1;
  }

  #matches(number: number, moment: Moment): boolean {
    const masks = this.#masks;
    if (masks === undefined) return true;
    const population = this.#population;
    const code = population.codeOf(number);
    const variant = variantOf(code);
    const version = moment.updates(number, phaseOf(code));
    if (version === 0) return this.#whole[variant] === 1;
    const { person, address, activity } = masks;
    return (
      (person === undefined || person[variant] === 1) &&
      (address === undefined || address[population.addressAt(number, version, variant)] === 1) &&
      (activity === undefined || activity[population.activityAt(number, version, variant)] === 1)
    );
  }
}

import { BodyTable } from './body-table.js';
import { catalogue, type IndexDefinition } from './catalogue.js';
import { GeneratedIndex } from './generated-index.js';
import { hashText } from './hash.js';
import type { Pair } from './identities.js';
import type { Filters, IndexResource, IndexSource, ProfileList } from './index-source.js';
import { type DayShares, type Population, tenantPeople } from './population.js';
import type { AttributeForm } from './segments.js';

interface Recorded {
  readonly id: unknown;
  readonly attributes: Record<string, unknown>;
}

function parsed(text: string): Recorded {
  try {
    const { id, attributes } = JSON.parse(text) ?? {};
    return { id, attributes: (Array.isArray(attributes) ? attributes[0] : attributes) ?? {} };
  } catch {
    // Tests set broken JSON on purpose: the service must serve it.
    return { id: undefined, attributes: {} };
  }
}

/** An index whose records a test has given as raw JSON text; it serves them byte for byte, in the given order. */
class RecordedIndex implements IndexSource {
  readonly maxRecordBytes: number;
  readonly #texts: readonly Buffer[];
  readonly #records: readonly Recorded[];

  constructor(
    readonly resource: IndexResource,
    readonly filterable: readonly string[],
    texts: readonly string[],
  ) {
    this.#texts = texts.map((text) => Buffer.from(text));
    this.#records = texts.map(parsed);
    this.maxRecordBytes = this.#texts.reduce((most, { length }) => Math.max(most, length), 0);
  }

  list(filters: Filters): ProfileList {
    const positions = [...this.#records.keys()].filter((position) =>
      filters.every(([attribute, value]) => this.#hasValue(position, attribute, value)),
    );
    return {
      total: () => positions.length,
      select: (from, limit) => {
        const begin = positions.findIndex((position) => position >= from);
        if (begin < 0) return { positions: [], count: 0, next: -1 };
        const page = positions.slice(begin, begin + limit);
        const bytes = page.reduce((sum, position) => sum + (this.#texts[position] as Buffer).length, 0);
        return { positions: page, count: page.length, bytes, next: positions[begin + limit] ?? -1 };
      },
    };
  }

  write(position: number, target: Uint8Array, offset: number): number {
    const text = this.#texts[position] as Buffer;
    target.set(text, offset);
    return offset + text.length;
  }

  find(id: string): number {
    return this.#records.findIndex((record) => record.id === id);
  }

  #hasValue(position: number, attribute: string, value: string): boolean {
    const own = this.#records[position]?.attributes[attribute];
    return own !== undefined && own !== null && String(own) === value;
  }
}

/** Enough for two seeds, or for both forms of one. A table takes some megabytes. */
const maxTables = 2 * catalogue.length;
const tables = new Map<string, BodyTable>();

/** The records of an index, rendered once for all tenants and services in this process that share the seed. */
function renderedBodies(definition: IndexDefinition, seed: number, form: AttributeForm): BodyTable {
  const key = `${seed} ${form} ${definition.name}`;
  let table = tables.get(key);
  if (table === undefined) {
    table = new BodyTable(definition, hashText(`bodies ${seed}`), form);
    const [oldest] = tables.keys();
    if (tables.size === maxTables && oldest !== undefined) tables.delete(oldest);
    tables.set(key, table);
  }
  return table;
}

/** The net change of an index, or of another list, over some days: after the last compared with before the first. */
export interface NetChange {
  inserted: number;
  updated: number;
  deleted: number;
  /** Entries in the list now. */
  total: number;
}

/** What some days have changed. */
interface DataChange {
  readonly indexes: Record<string, NetChange>;
  /** `from` is deleted; `into` has its e-mail and phone since. */
  readonly merges: readonly Pair<string>[];
  /** `into` is new, and has the e-mail and phone that `from` had. */
  readonly splits: readonly Pair<string>[];
}

interface TenantDataOptions {
  readonly seed: number;
  /** Number of people before the first day. */
  readonly profiles: number;
  readonly form: AttributeForm;
  readonly days: readonly DayShares[];
}

/** The indexes of one tenant. */
export class TenantData {
  readonly #population: Population;
  readonly #generated: readonly GeneratedIndex[];
  readonly #recorded = new Map<string, RecordedIndex>();

  constructor(tenant: string, { seed, profiles, form, days }: TenantDataOptions) {
    this.#population = tenantPeople(tenant, seed, profiles);
    this.#population.moveTo(days);
    this.#generated = catalogue.map(
      (definition) => new GeneratedIndex(definition, renderedBodies(definition, seed, form), this.#population),
    );
  }

  /** In the order of GET /indexes: generated ones, then those of given records, which hide a generated namesake. */
  get indexes(): readonly IndexSource[] {
    const generated = this.#generated.filter(({ resource }) => !this.#recorded.has(resource.name));
    return [...generated, ...this.#recorded.values()];
  }

  index(id: string): IndexSource | undefined {
    for (const source of this.#recorded.values()) if (source.resource.id === id) return source;
    const generated = this.#generated.find(({ resource }) => resource.id === id);
    return generated !== undefined && this.#recorded.has(generated.resource.name) ? undefined : generated;
  }

  /** Creates an index of given records, or replaces the records of one. */
  record(name: string, filterable: readonly string[], texts: readonly string[], at: number): IndexResource {
    const today = new Date(at).toISOString();
    const recorded = this.#recorded.get(name)?.resource;
    const resource: IndexResource = {
      id: recorded?.id ?? `idx-r${hashText(name).toString(36).padStart(7, '0')}`,
      name,
      description: 'Records given to the local service',
      created_at: recorded?.created_at ?? today,
      updated_at: today,
    };
    this.#recorded.set(name, new RecordedIndex(resource, filterable, texts));
    return resource;
  }

  /** Removes an index of given records; false if there is none. */
  forget(name: string): boolean {
    return this.#recorded.delete(name);
  }

  /** Moves the generated indexes to a new day. @param days all days since the start, not only the new ones */
  moveTo(days: readonly DayShares[]): DataChange {
    const before = this.#population.moment;
    const passed = this.#population.moveTo(days);
    const after = this.#population.moment;
    const changes = catalogue.map(() => ({ inserted: 0, updated: 0, deleted: 0, total: 0 }));
    for (let number = 0; number < after.end; number += 1) {
      const old = this.#population.version(number, before);
      const current = this.#population.version(number, after);
      if (old < 0 && current < 0) continue;
      const kind = old < 0 ? 'inserted' : current < 0 ? 'deleted' : old === current ? undefined : 'updated';
      for (let index = 0; index < catalogue.length; index += 1) {
        const { stride, offset } = catalogue[index] as (typeof catalogue)[number];
        if (number % stride !== offset) continue;
        const change = changes[index] as NetChange;
        if (kind !== undefined) change[kind] += 1;
        if (current >= 0) change.total += 1;
      }
    }
    const named = ({ from, into }: Pair): Pair<string> => ({ from: this.#idOf(from), into: this.#idOf(into) });
    return {
      indexes: Object.fromEntries(catalogue.map(({ name }, index) => [name, changes[index] as NetChange])),
      merges: passed.flatMap(({ merges }) => merges.map(named)),
      splits: passed.flatMap(({ splits }) => splits.map(named)),
    };
  }

  #idOf(number: number): string {
    return `p-${this.#population.idOf(number).toString(16).padStart(8, '0')}`;
  }
}

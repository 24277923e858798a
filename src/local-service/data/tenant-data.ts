import type { AttributeForm } from './attribute-text.js';
import { catalogue } from './catalogue.js';
import { GeneratedIndex } from './generated-index.js';
import { hashText } from './hash.js';
import type { IndexResource, IndexSource } from './index-source.js';
import type { DayShares } from './moment.js';
import { type Population, tenantPeople } from './population.js';
import { RecordedIndex } from './recorded-index.js';
import { renderedBodies } from './rendered-bodies.js';

/** The net change of an index over some days: its state after the last compared with its state before the first. */
export interface NetChange {
  inserted: number;
  updated: number;
  deleted: number;
  /** Profiles in the index now. */
  total: number;
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
    const now = new Date(at).toISOString();
    const known = this.#recorded.get(name)?.resource;
    const resource: IndexResource = {
      id: known?.id ?? `idx-r${hashText(name).toString(36).padStart(7, '0')}`,
      name,
      description: 'Records given to the local service',
      created_at: known?.created_at ?? now,
      updated_at: now,
    };
    this.#recorded.set(name, new RecordedIndex(resource, filterable, texts));
    return resource;
  }

  /** Removes an index of given records; false if there is none. */
  forget(name: string): boolean {
    return this.#recorded.delete(name);
  }

  /** Moves the generated indexes to a new day. @param days all days since the start, not only the new ones */
  moveTo(days: readonly DayShares[]): Record<string, NetChange> {
    const before = this.#population.moment;
    this.#population.moveTo(days);
    const after = this.#population.moment;
    const changes = catalogue.map(() => ({ inserted: 0, updated: 0, deleted: 0, total: 0 }));
    for (let number = 0; number < after.end; number += 1) {
      const old = this.#population.version(number, before);
      const now = this.#population.version(number, after);
      if (old < 0 && now < 0) continue;
      const kind = old < 0 ? 'inserted' : now < 0 ? 'deleted' : old === now ? undefined : 'updated';
      for (let index = 0; index < catalogue.length; index += 1) {
        const { stride, offset } = catalogue[index] as (typeof catalogue)[number];
        if (number % stride !== offset) continue;
        const change = changes[index] as NetChange;
        if (kind !== undefined) change[kind] += 1;
        if (now >= 0) change.total += 1;
      }
    }
    return Object.fromEntries(catalogue.map(({ name }, index) => [name, changes[index] as NetChange]));
  }
}

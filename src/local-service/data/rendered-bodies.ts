import type { AttributeForm } from './attribute-text.js';
import { BodyTable } from './body-table.js';
import { catalogue, type IndexDefinition } from './catalogue.js';
import { hashText } from './hash.js';

/** Enough for two seeds, or for both forms of one. A table takes some megabytes. */
const maxTables = 2 * catalogue.length;
const tables = new Map<string, BodyTable>();

/** The records of an index, rendered once for all tenants and services in this process that share the seed. */
export function renderedBodies(definition: IndexDefinition, seed: number, form: AttributeForm): BodyTable {
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

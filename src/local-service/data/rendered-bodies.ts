import { BodyTable } from './body-table.js';
import { catalogue, type IndexDefinition } from './catalogue.js';
import { hashText } from './hash.js';

/** Enough for two seeds. A table takes some megabytes. */
const maxTables = 2 * catalogue.length;
const tables = new Map<string, BodyTable>();

/** The records of an index, rendered once for all tenants and services in this process that share the seed. */
export function renderedBodies(definition: IndexDefinition, seed: number): BodyTable {
  const key = `${seed} ${definition.name}`;
  let table = tables.get(key);
  if (table === undefined) {
    table = new BodyTable(definition, hashText(`bodies ${seed}`));
    const [oldest] = tables.keys();
    if (tables.size === maxTables && oldest !== undefined) tables.delete(oldest);
    tables.set(key, table);
  }
  return table;
}

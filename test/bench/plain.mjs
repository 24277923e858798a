import { DuckDBInstance } from '@duckdb/node-api';

/**
 * The plain way: fetch, JSON.parse, DuckDB's row appender. A separate program in plain JavaScript, so that it compiles
 * nothing when it starts. Arguments: URL, token, tenant, database, page size.
 */
const [url = '', token = '', tenant = '', path = '', pageSize = ''] = process.argv.slice(2);

const headers = { authorization: `Bearer ${token}`, 'service-tenant': tenant, 'api-version': '2025-07-31' };

async function page(index, next) {
  const query = next === '' ? '' : `&next_token=${encodeURIComponent(next)}`;
  const list = `${url}/api/indexes/${index}/profiles?limit=${pageSize}`;
  return (await fetch(`${list}${query}`, { headers })).json();
}

function typeOf(value) {
  if (typeof value === 'boolean') return 'BOOLEAN';
  return typeof value === 'number' ? 'DOUBLE' : 'VARCHAR';
}

async function main() {
  const indexes = await (await fetch(`${url}/api/indexes`, { headers })).json();
  const index = indexes.data.find(({ name }) => name === 'loyalty_members').id;
  const connection = await (await DuckDBInstance.create(path)).connect();
  let current = await page(index, '');
  const sample = new Map();
  for (const { attributes } of current.data)
    for (const [name, value] of Object.entries(attributes)) if (value !== null) sample.set(name, value);
  const columns = [...sample].map(([name, value]) => ({ name, type: typeOf(value) }));
  await connection.run(
    `CREATE TABLE members (id VARCHAR, index_id VARCHAR, ${columns.map(({ name, type }) => `"${name}" ${type}`).join(', ')})`,
  );
  const appender = await connection.createAppender('members');
  for (;;) {
    for (const { id, index_id, attributes } of current.data) {
      appender.appendVarchar(id);
      appender.appendVarchar(index_id);
      for (const { name, type } of columns) {
        const value = attributes[name];
        if (value === null || value === undefined) appender.appendNull();
        else if (type === 'DOUBLE') appender.appendDouble(Number(value));
        else if (type === 'BOOLEAN') appender.appendBoolean(Boolean(value));
        else appender.appendVarchar(typeof value === 'string' ? value : JSON.stringify(value));
      }
      appender.endRow();
    }
    if (!current.next_token) break;
    current = await page(index, current.next_token);
  }
  appender.closeSync();
  connection.closeSync();
}

await main();

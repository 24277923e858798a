import { afterAll } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';

const server = await PostgresServer.start();
afterAll(() => server.stop());

tableConformance({
  connector: postgres,
  server: { host: '127.0.0.1', port: server.port },
  place: async () => {
    const schema = server.name();
    return {
      options: { url: server.url(), schema },
      rows: (table) => server.rows(schema, table),
      through: (port) => ({ url: server.url(port) }),
      withoutPermission: async () => {
        await server.query(`CREATE SCHEMA ${schema}; CREATE ROLE ${schema}_reader LOGIN PASSWORD 'reader-secret'`);
        return { url: server.url().replace('owner:owner-secret', `${schema}_reader:reader-secret`) };
      },
      contents: async () => {
        const found = await server.query(`SELECT n.nspname || '.' || coalesce(c.relname, '') AS name,
          CASE WHEN c.relkind = 'r' THEN (xpath('//n/text()',
            query_to_xml(format('SELECT count(*) AS n, max(xmin::text::bigint) AS x FROM %s', c.oid::regclass), true, false, '')))[1]::text END AS rows
          FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = '${schema}' ORDER BY 1`);
        return found.map(({ name, rows }) => `${name} ${rows}`);
      },
      close: async () => {
        await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      },
    };
  },
});

import { afterAll, describe } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { postgres12, postgres12IsInstalled, startPgbouncer } from '../../fixtures/pgbouncer.js';
import { postgresPlace } from '../../fixtures/postgres-place.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';

const isInstalled = postgres12IsInstalled();
const server = isInstalled ? await PostgresServer.start('cdsync-postgres-12-', undefined, postgres12) : undefined;
const pool = server && (await startPgbouncer(server));
afterAll(async () => {
  await pool?.stop();
  await server?.stop();
});

describe.runIf(pool)('PostgreSQL 12 behind PgBouncer in transaction mode', () => {
  tableConformance({
    connector: postgres,
    ...(pool === undefined ? {} : { server: { host: '127.0.0.1', port: pool.port } }),
    place: async () => postgresPlace(server as PostgresServer, pool?.port),
  });
});

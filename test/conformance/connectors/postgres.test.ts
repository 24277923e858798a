import { afterAll } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { postgresPlace } from '../../fixtures/postgres-place.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';

const server = await PostgresServer.start();
afterAll(() => server.stop());

tableConformance({
  connector: postgres,
  server: { host: '127.0.0.1', port: server.port },
  place: async () => postgresPlace(server),
});

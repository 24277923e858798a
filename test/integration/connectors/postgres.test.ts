import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { TableDriver } from '../../fixtures/table-driver.js';

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

describe('postgres', () => {
  it('lets destinations that begin at once make the schema and its watermarks', async () => {
    for (let round = 0; round < 5; round += 1) {
      const options = { url: server.url(), schema: server.name() };
      const drivers = await Promise.all(Array.from({ length: 8 }, () => TableDriver.open(postgres, options)));
      const all = await Promise.all(drivers.map((driver) => driver.with((destination) => destination.watermarks())));
      expect(all).toEqual(drivers.map(() => []));
      await Promise.all(drivers.map((driver) => driver.close()));
    }
  });
});

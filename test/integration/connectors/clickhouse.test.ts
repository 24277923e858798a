import { afterAll, beforeAll, describe } from 'vitest';
import clickhouse from '../../../connectors/clickhouse/index.js';
import { tableConformance } from '../../../src/sdk/conformance/index.js';
import { ClickhouseServer, clickhouseIsThere } from '../../fixtures/clickhouse.js';

let server: ClickhouseServer;

describe.runIf(clickhouseIsThere())('ClickHouse', () => {
  beforeAll(async () => {
    server = await ClickhouseServer.start();
  });
  afterAll(() => server.stop());

  tableConformance({
    connector: clickhouse,
    get server() {
      return server.address;
    },
    place: () => server.place(),
  });
});

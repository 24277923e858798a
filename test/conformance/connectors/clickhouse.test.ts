import { afterAll, describe } from 'vitest';
import clickhouse from '../../../connectors/clickhouse/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { ClickhouseServer, clickhouseIsThere } from '../../fixtures/clickhouse.js';

const server = clickhouseIsThere() ? await ClickhouseServer.start() : undefined;
afterAll(() => server?.stop());

describe.runIf(server)('ClickHouse', () => {
  tableConformance({
    connector: clickhouse,
    ...(server === undefined ? {} : { server: server.address }),
    place: () => (server as ClickhouseServer).place(),
  });
});

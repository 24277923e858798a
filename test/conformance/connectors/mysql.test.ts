import { afterAll, describe } from 'vitest';
import mysql from '../../../connectors/mysql/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';

const server = mariadbIsInstalled() ? await MariadbServer.start() : undefined;
afterAll(() => server?.stop());

describe.runIf(server)('MariaDB', () => {
  tableConformance({
    connector: mysql,
    keepsNegativeZero: false,
    ...(server === undefined ? {} : { server: { host: '127.0.0.1', port: server.port } }),
    place: () => (server as MariadbServer).place(),
  });
});

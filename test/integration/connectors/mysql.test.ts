import { afterAll, beforeAll, describe } from 'vitest';
import mysql from '../../../connectors/mysql/index.js';
import { tableConformance } from '../../../src/sdk/conformance/index.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';

let server: MariadbServer;

describe.runIf(mariadbIsInstalled())('MariaDB', () => {
  beforeAll(async () => {
    server = await MariadbServer.start();
  });
  afterAll(() => server.stop());

  tableConformance({
    connector: mysql,
    keepsNegativeZero: false,
    get server() {
      return { host: '127.0.0.1', port: server.port };
    },
    place: () => server.place(),
  });
});

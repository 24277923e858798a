import { afterAll, describe } from 'vitest';
import mysql from '../../../connectors/mysql/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { MariadbServer, mysqlIsInstalled } from '../../fixtures/mariadb.js';

const server = mysqlIsInstalled() ? await MariadbServer.startMysql() : undefined;
afterAll(() => server?.stop());

describe.runIf(server)('MySQL 9.7', () => {
  tableConformance({
    connector: mysql,
    keepsNegativeZero: false,
    keepsLongJsonNumbers: false,
    ...(server === undefined ? {} : { server: { host: '127.0.0.1', port: server.port } }),
    place: () => (server as MariadbServer).place(),
  });
});

import { afterAll, describe, vi } from 'vitest';
import trino from '../../../connectors/trino/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { TrinoServer, trinoIsThere } from '../../fixtures/trino.js';

// A statement that changes an Iceberg table takes a good part of a second.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

const server = trinoIsThere() ? await TrinoServer.start() : undefined;
afterAll(() => server?.stop());

describe.runIf(server).each(['iceberg', 'postgresql'] as const)('Trino, catalog %s', (kind) => {
  tableConformance({
    connector: trino,
    // Trino's MERGE is several statements in PostgreSQL.
    showsLoadsAtOnce: kind === 'iceberg',
    ...(server === undefined ? {} : { server: server.address }),
    place: () => (server as TrinoServer).place(kind),
  });
});

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import trino from '../../../connectors/trino/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { delivered, people, undelivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { TrinoServer, trinoIsThere } from '../../fixtures/trino.js';
import { type Strike, struck, watchSteps } from '../../integration/deliveries/strikes.js';

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

describe.runIf(server)('stages of Trino', () => {
  beforeAll(() => watchSteps());

  it.each(['iceberg', 'postgresql'] as const)(
    'that may not be dropped keep rows, catalog %s: each run says so, and the first that may drops them',
    async (kind) => {
      const place = await (server as TrinoServer).place(kind);
      const { catalog, schema } = place.options;
      const target = await TestTarget.open({ connector: trino, place, destination: { mode: 'mirror' } });
      const stages = async () => {
        const tables = await (server as TrinoServer).query(
          `SELECT table_name FROM ${catalog}.information_schema.tables
           WHERE table_schema = '${schema}' AND starts_with(table_name, '_cdsync_rows_')`,
        );
        return Promise.all(
          tables.map(([name]) => (server as TrinoServer).query(`SELECT * FROM ${catalog}.${schema}."${name}"`)),
        );
      };
      const refused = async (strike: Pick<Strike, 'after'>) => {
        let code: string | undefined;
        await struck({ how: 'refusal', step: 0, ...strike }, async () => {
          ({ code } = undelivered(await target.push()));
        });
        return code;
      };
      await target.commit(people(0, 8, "'in clear'"));
      expect(await refused({ after: true })).toBe('removal_owed');
      expect(JSON.stringify(await stages())).toContain('in clear');
      expect([await refused({ after: false }), (await stages()).length]).toEqual(['removal_owed', 1]);
      expect([delivered(await target.push()).action, await stages()]).toEqual(['nothing', []]);
      expect((await place.rows('people')).length).toBe(8);
      await target.close();
    },
  );
});

import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { TableDriver } from '../../fixtures/table-driver.js';
import { Workspace } from '../../fixtures/workspace.js';

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

describe('postgres', () => {
  it('lets destinations that start at the same time create the schema and its watermarks', async () => {
    for (let round = 0; round < 5; round += 1) {
      const options = { url: server.url(), schema: server.name() };
      const drivers = await Promise.all(Array.from({ length: 8 }, () => TableDriver.open(postgres, options)));
      const all = await Promise.all(drivers.map((driver) => driver.with((destination) => destination.watermarks())));
      expect(all).toEqual(drivers.map(() => []));
      await Promise.all(drivers.map((driver) => driver.close()));
    }
  });

  it('needs no more than its README grants, and its readers can read', async () => {
    const readme = await readFile('connectors/postgres/README.md', 'utf8');
    const blocks = [...readme.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => String(sql));
    expect(blocks.length).toBe(2);
    await server.query('REVOKE ALL ON DATABASE crm FROM PUBLIC; CREATE ROLE analysts LOGIN');
    for (const sql of blocks) await server.query(sql.replace("'…'", "'loader-secret'"));
    const url = server.url().replace('owner:owner-secret', 'loader:loader-secret');
    const driver = await TableDriver.open(postgres, { url, schema: 'cdp' });
    try {
      const rows = (to: number, more = '') => `SELECT 'p' || i AS id, i AS n${more} FROM range(${to}) t(i)`;
      const key = ['id'];
      await driver.load({ table: 'people', query: rows(100), key, sequence: 1 });
      const merge = { type: 'merge', absent: 'delete' } as const;
      const changed = `SELECT 'upsert' AS _op, * FROM (${rows(50, ", 'new' AS note")})`;
      await driver.load({ table: 'people', query: changed, key, action: merge, sequence: 2 });
      await driver.load({ table: 'people', query: rows(20), key, action: { type: 'replace' }, sequence: 3 });
      const may = "has_table_privilege('analysts', 'cdp.people', 'SELECT')";
      const seen = await server.query(`SELECT ${may} AS may, count(*)::int AS n FROM cdp.people`);
      expect(seen).toEqual([{ may: true, n: 20 }]);
    } finally {
      await driver.close();
    }
  });

  it('sets aside only rows that have U+0000 in a text or in JSON', async () => {
    const space = await Workspace.open({ profiles: 10 });
    try {
      const values = [`'a' || chr(0)`, `chr(0) || repeat('x', 3000000)`, `'\\u0000'`, `'plain'`, 'NULL'];
      const rows = values.flatMap((value, index) => [
        `SELECT 'text${index}' AS id, ${value} AS note, NULL::VARCHAR[] AS list`,
        `SELECT 'list${index}', NULL, [${value}, 'b']`,
      ]);
      const stream = { name: 'notes', source: 'sql', key: ['id'], query: rows.join(' UNION ALL ') };
      const destination = { name: 'crm', connector: 'postgres', url: server.url(), schema: server.name() };
      await space.configure('odd', [stream], { job: { destinations: [destination] } });
      const { code, report } = await space.run('odd');
      const { status, rows: stored } = report.jobs[0]?.destinations[0] ?? {};
      expect([code, status, stored]).toEqual([5, 'partial', 6]);
      const ids = (await server.query(`SELECT id FROM ${destination.schema}.notes ORDER BY id`)).map(({ id }) => id);
      expect(ids).toEqual(['list2', 'list3', 'list4', 'text2', 'text3', 'text4']);
      // The next night has nothing new to tell.
      const next = await space.run('odd');
      expect([next.code, next.report.status]).toEqual([0, 'ok']);
      expect(next.report.jobs[0]?.destinations[0]).toMatchObject({ status: 'ok', waiting: 4, error: null });
    } finally {
      await space.close();
    }
  });
});

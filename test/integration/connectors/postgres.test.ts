import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Workspace } from '../../fixtures/workspace.js';
import { four, Runs } from './recorded-runs.js';

const rows = (to: number) => `SELECT 'p' || i AS id, i AS n FROM range(${to}) t(i)`;
const placeOf = (options: Record<string, unknown>) => ({ options, rows: async () => [], close: async () => undefined });

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

describe('postgres', () => {
  it('lets destinations that start at the same time create the schema and its records', async () => {
    for (let round = 0; round < 3; round += 1) {
      const place = placeOf({ url: server.url(), schema: server.name() });
      const subjects = await Promise.all(
        Array.from({ length: 6 }, (_, n) =>
          TestTarget.open({ connector: postgres, place, destination: { name: `d${n}`, table: `t${n}` } }),
        ),
      );
      const reports = await Promise.all(subjects.map((subject) => subject.run(rows(3))));
      expect(reports.map(({ destinations }) => destinations[0]?.status)).toEqual(subjects.map(() => 'ok'));
      await Promise.all(subjects.map((subject) => subject.close()));
    }
  });

  it('needs no more than its README grants, and its readers can read', async () => {
    const readme = await readFile('connectors/postgres/README.md', 'utf8');
    const blocks = [...readme.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => String(sql));
    expect(blocks.length).toBe(2);
    await server.query('REVOKE ALL ON DATABASE crm FROM PUBLIC; CREATE ROLE analysts LOGIN');
    for (const sql of blocks) await server.query(sql.replace("'…'", "'loader-secret'"));
    const url = server.url().replace('owner:owner-secret', 'loader:loader-secret');
    const subject = await TestTarget.open({ connector: postgres, place: placeOf({ url, schema: 'cdp' }) });
    try {
      for (const query of [rows(100), `SELECT *, 'new' AS note FROM (${rows(50)})`, rows(20)]) {
        expect((await subject.run(query)).destinations[0]).toMatchObject({ status: 'ok', error: null });
        // A setting that other programs may need: PostgreSQL then describes types in quotes.
        await server.query('ALTER ROLE loader SET quote_all_identifiers = on');
      }
      subject.destination = { mode: 'replace' };
      expect((await subject.run(rows(21))).destinations[0]).toMatchObject({ status: 'ok', action: 'reload' });
      const may = "has_table_privilege('analysts', 'cdp.people', 'SELECT')";
      const seen = await server.query(`SELECT ${may} AS may, count(*)::int AS n FROM cdp.people`);
      expect(seen).toEqual([{ may: true, n: 21 }]);
    } finally {
      await subject.close();
    }
  });

  it('names the limit of a row that is too large, and nothing that is beside it', async () => {
    const place = placeOf({ url: server.url(), schema: server.name() });
    const subject = await TestTarget.open({ connector: postgres, place });
    const numbers = Array.from({ length: 1100 }, (_, n) => `i + ${n} AS n${n}`).join(', ');
    const { destinations } = await subject.run(`SELECT 'p' || i AS id, ${numbers} FROM range(2) t(i)`);
    await subject.close();
    expect(destinations[0]).toMatchObject({
      status: 'failed',
      error: {
        code: 'destination_refused',
        message: expect.stringMatching(/row is too big: size \d+, maximum size 8160/),
        hint: expect.stringContaining('drop: true'),
      },
    });
  });

  it('gives wider values a column of their own where a view holds the type of the present one', async () => {
    const space = await Workspace.open({ profiles: 10 });
    try {
      const schema = server.name();
      const runs = new Runs(space, { connector: 'postgres', url: server.url(), schema });
      await runs.run(four((n) => ({ n })));
      await server.query(`CREATE VIEW ${schema}.seen AS SELECT id, n FROM ${schema}.members`);
      const wide = 98_765_432_109_876_540_000;
      const choices = (onTypeChange: string) => ({ destination: { on_type_change: onTypeChange } });
      const refused = await runs.run(
        four((n) => ({ n: n === 4 ? wide : n })),
        choices('fail'),
      );
      expect(refused).toMatchObject({ status: 'failed', error: { code: 'type_changed' } });
      await runs.configure(choices('variant_column'));
      expect(await runs.push()).toMatchObject({ status: 'ok', action: 'reload', error: null });
      const found = await server.query(`SELECT n::text AS n, n__text FROM ${schema}.members ORDER BY id`);
      expect(found.map(({ n, n__text }) => [n, n__text])).toEqual([
        ...['1', '2', '3'].map((n) => [n, n]),
        [null, JSON.stringify(wide)],
      ]);
      expect(await runs.run(four((n) => ({ n: n === 4 ? wide : n + 1 })))).toMatchObject({
        status: 'ok',
        action: 'increment',
      });
    } finally {
      await space.close();
    }
  });

  it('leaves empty only values that have U+0000 in a text or in JSON', async () => {
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
      expect([code, status, stored]).toEqual([5, 'partial', 10]);
      const full = `SELECT id FROM ${destination.schema}.notes WHERE note IS NOT NULL OR list IS NOT NULL ORDER BY id`;
      const ids = (await server.query(full)).map(({ id }) => id);
      expect(ids).toEqual(['list2', 'list3', 'list4', 'text2', 'text3']);
      // The next run finds nothing new.
      const next = await space.run('odd');
      expect([next.code, next.report.status]).toEqual([0, 'ok']);
      expect(next.report.jobs[0]?.destinations[0]).toMatchObject({ status: 'ok', refused: 4, error: null });
    } finally {
      await space.close();
    }
  });
});

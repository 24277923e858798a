import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import clickhouse from '../../../connectors/clickhouse/index.js';
import { differences } from '../../../src/conformance/compare.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { after, before, delivered, ownless, people, undelivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { ClickhouseServer, clickhouseIsThere } from '../../fixtures/clickhouse.js';
import { struck, watchSteps } from '../../integration/deliveries/strikes.js';

const server = clickhouseIsThere() ? await ClickhouseServer.start() : undefined;
afterAll(() => server?.stop());

describe.runIf(server)('ClickHouse', () => {
  tableConformance({
    connector: clickhouse,
    ...(server === undefined ? {} : { server: server.address }),
    place: () => (server as ClickhouseServer).place(),
  });
});

async function subject(destination: Record<string, unknown>): Promise<TestTarget> {
  const place = await (server as ClickhouseServer).place();
  return TestTarget.open({ connector: clickhouse, place, destination });
}

/** Runs a statement in the database of a target. */
function query({ place }: TestTarget, sql: string): Promise<void> {
  return (server as ClickhouseServer).query(sql.replaceAll('crm.', `${place.options.database}.`));
}

function rowsAsJson({ place }: TestTarget, table: string): string {
  return `SELECT toString(tuple(*)) AS row FROM ${place.options.database}.\`${table}\``;
}

async function tablesOf({ place }: TestTarget): Promise<string[]> {
  const found = await (server as ClickhouseServer).select(
    `SELECT name FROM system.tables WHERE database = '${place.options.database}' ORDER BY name`,
  );
  return found.map(({ name }) => String(name));
}

describe.runIf(server)('tables beside the one of ClickHouse', () => {
  beforeAll(() => watchSteps());

  it('that may not be dropped have the rows from before: each run says so, and the first that may drops them', async () => {
    const target = await subject({ mode: 'mirror' });
    delivered(await target.run(people(0, 8, "'in clear'")));
    const isInClear = async () => {
      const tables = (await tablesOf(target)).map((name) => `SELECT * FROM (${rowsAsJson(target, name)})`);
      const rows = await (server as ClickhouseServer).select(tables.join(' UNION ALL '));
      return rows.some(({ row }) => String(row).includes('in clear'));
    };
    const refused = async (full: boolean) => {
      let code: string | undefined;
      await struck({ how: 'refusal', step: 0, after: full }, async () => {
        ({ code } = undelivered(await target.push({ full })));
      });
      return code;
    };
    await target.commit(people(0, 8, "'masked'"));
    expect([await refused(true), await isInClear()]).toEqual(['removal_owed', true]);
    expect([await refused(false), await isInClear()]).toEqual(['removal_owed', true]);
    expect(delivered(await target.push()).action).toBe('nothing');
    expect([await tablesOf(target), await isInClear()]).toEqual([['_cdsync_loads', '_cdsync_state', 'people'], false]);
    await target.close();
  });
});

describe.runIf(server)('a load of ClickHouse that is killed between its steps', () => {
  beforeAll(() => watchSteps());

  // Not after every step, because there are about fifty: the series of deliveries kill at others.
  it.each([
    { what: 'changes', first: 1, destination: { mode: 'mirror' }, full: false },
    { what: 'a reload that keeps rows', first: 2, destination: { mode: 'mirror', deletes: 'soft' }, full: true },
    { what: 'a log', first: 3, destination: { mode: 'append' }, full: false },
  ])('is repeated with the same result: $what', { timeout: 600_000 }, async ({ what, first, destination, full }) => {
    const killed = await subject(destination);
    delivered(await killed.run(people(0, 8)));
    let logged = 8;
    for (let step = first, last = 'first'; last !== ''; step += 4) {
      await killed.commit(`${people(0, 3, `'name ${step}'`)} UNION ALL ${people(3, logged % 8 === 0 ? 7 : 8)}`);
      logged += 4;
      last = await struck({ how: 'death', step, after: true }, async () => {
        await killed.push({ full });
      });
      delivered(await killed.push());
      const rows = await killed.place.rows('people');
      if (what === 'a log') expect(rows, `after ${last}`).toHaveLength(logged);
      else {
        const live = rows.filter((row) => (row.get('_deleted_at') ?? null) === null);
        expect(differences(await killed.published(), ownless(live)), `after ${last}`).toEqual([]);
      }
    }
    expect(await tablesOf(killed)).toEqual(['_cdsync_loads', '_cdsync_state', 'people']);
    await killed.close();
  });
});

describe.runIf(server)('tables of ClickHouse', () => {
  it.each([{ mode: 'mirror' }, { mode: 'mirror', deletes: 'soft' }, { mode: 'replace' }])(
    "keep the values of a user's columns, and computed ones: $mode $deletes",
    async (destination) => {
      const shared = await subject(destination);
      delivered(await shared.run(before));
      await query(
        shared,
        "ALTER TABLE crm.people ADD COLUMN mine String DEFAULT 'new', ADD COLUMN up String MATERIALIZED upper(id)",
      );
      await query(shared, "ALTER TABLE crm.people UPDATE mine = 'own' WHERE 1");
      delivered(await shared.run(after));
      delivered(await shared.push({ full: true }));
      const rows = await (server as ClickhouseServer).select(
        `SELECT mine, up = upper(id) AS same, count() AS n FROM ${shared.place.options.database}.people GROUP BY ALL ORDER BY n SETTINGS final = 1`,
      );
      const gone = destination.deletes === 'soft' ? 5 : 0;
      expect(rows.map(({ mine, same, n }) => [mine, Number(same), Number(n)])).toEqual([
        ['', 1, 5],
        ['own', 1, 90 + gone],
      ]);
      await shared.close();
    },
  );

  it('take no log where they keep one row of each key', async () => {
    const other = await subject({ mode: 'append' });
    await query(
      other,
      'CREATE TABLE crm.people (id String, _cdsync_version UInt64, _cdsync_deleted UInt8) ENGINE = ReplacingMergeTree(_cdsync_version, _cdsync_deleted) ORDER BY id',
    );
    await other.commit(before);
    expect(undelivered(await other.push({ adopt: true })).code).toBe('destination_refused');
    await other.close();
  });
});

import { cp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { JobReport, RunReport } from '../../src/core/run-report.js';
import { PostgresServer } from '../fixtures/postgres-server.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

const configs = join(import.meta.dirname, '..', '..', 'configs');

let space: Workspace;
let names: string[];
let warehouse: PostgresServer;
beforeAll(async () => {
  [space, warehouse] = await Promise.all([Workspace.open({ profiles: 3000 }), PostgresServer.start()]);
  await cp(configs, join(space.folder, 'configs'), { recursive: true });
  names = (await readdir(configs)).filter((name) => name.endsWith('.yaml'));
});
afterAll(() => Promise.all([space.close(), warehouse.stop()]));

async function run(name: string, job: string): Promise<JobReport> {
  const { url, tenantId, clientId, clientSecret, token } = space.service;
  const env = {
    CDS_BASE_URL: url,
    CDS_TENANT_ID: tenantId,
    CDS_CLIENT_ID: clientId,
    CDS_CLIENT_SECRET: clientSecret,
    CDS_TOKEN: token,
    WAREHOUSE_URL: warehouse.url(),
  };
  const { code, stdout, stderr } = await space.cdsync(
    ['run', `configs/${name}`, '--job', job, '--json', '--quiet'],
    env,
  );
  if (code !== 0) throw new Error(`${name}, job ${job}: ${code} ${stderr} ${stdout}`);
  return (JSON.parse(stdout) as RunReport).jobs[0] as JobReport;
}

interface NetChange {
  inserted: number;
  updated: number;
  deleted: number;
  total: number;
}

interface Changed {
  indexes: Record<string, NetChange>;
  realtime: {
    segments: Record<string, { entered: number; left: number; total: number }>;
    collections: Record<string, NetChange>;
  };
  management: Record<string, NetChange>;
}

/** Responses of the service by id, read by a client that shares nothing with cdsync. */
async function profiles(ids: readonly string[], path: string): Promise<Map<string, string>> {
  const headers = { authorization: `Bearer ${space.service.token}`, 'service-tenant': space.service.tenantId };
  const found = new Map<string, string>();
  for (const id of ids) {
    const response = await fetch(`${space.service.url}/prof/${path.replace('{id}', id)}`, { headers });
    if (response.status === 200) found.set(id, await response.text());
  }
  return found;
}

function difference(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): Partial<NetChange> {
  const both = [...after].filter(([id]) => before.has(id));
  return {
    inserted: after.size - both.length,
    updated: both.filter(([id, text]) => before.get(id) !== text).length,
    deleted: [...before.keys()].filter((id) => !after.has(id)).length,
  };
}

const vips = async () =>
  (await space.query('every_source', 'select profile_id from vip')).map(({ profile_id }) => String(profile_id));

describe('the configurations in configs/', () => {
  it('run as they are, and again', async () => {
    expect(names).toContain('quickstart.yaml');
    for (const name of names) {
      const { jobs } = parse(await readFile(join(configs, name), 'utf8')) as { jobs: object };
      for (const job of Object.keys(jobs)) {
        const first = await run(name, job);
        expect([name, job, first.streams.map(({ status }) => status)]).toEqual([
          name,
          job,
          first.streams.map(() => 'ok'),
        ]);
        const { destinations } = first;
        expect(destinations.map(({ status }) => status)).toEqual(destinations.map(() => 'ok'));
        expect((await run(name, job)).status).toBe('ok');
      }
    }
  }, 180_000);

  it('every-source.yaml has every source, and a second run finds exactly the changes of one day in each', async () => {
    const text = await readFile(join(configs, 'every-source.yaml'), 'utf8');
    const streams: { name: string; source: string }[] = parse(text).jobs.every_source.streams;
    const schema = await readFile(join(configs, 'cdsync.schema.json'), 'utf8');
    const known = [...schema.matchAll(/"source": \{[^}]*"const": "(\w+)"/g)].map(([, source]) => source);
    expect(known.length).toBe(15);
    expect([...new Set(streams.map(({ source }) => source))].sort()).toEqual(known.sort());

    await run('every-source.yaml', 'every_source');
    const beforeVips = await vips();
    const before = await profiles(beforeVips, 'profiles/col-1/{id}');
    const chosenBefore = await space.query('every_source', 'from chosen order by id');
    const changed = (await space.control('change', {
      days: 1,
      updated: 0.2,
      inserted: 0.02,
      deleted: 0.02,
    })) as Changed;
    const report = await run('every-source.yaml', 'every_source');
    const of = (name: string) => streamOf(report, name);
    const net = ({ inserted, updated, deleted, total }: NetChange) => ({ inserted, updated, deleted, rows: total });

    expect(of('members')).toMatchObject(net(changed.indexes.loyalty_members as NetChange));
    expect(of('indexes')).toMatchObject({ rows: 3, updated: 3 });
    for (const [name, list] of [
      ['segments', 'segments'],
      ['campaigns', 'campaigns'],
      ['drafts', 'campaign_drafts'],
    ] as const)
      expect([name, of(name)]).toMatchObject([name, net(changed.management[list] as NetChange)]);
    for (const [name, list] of [
      ['audit', 'audit_events'],
      ['ingests', 'ingest_jobs'],
      ['workflows', 'workflow_runs'],
    ] as const) {
      const { inserted, updated, deleted } = changed.management[list] as NetChange;
      expect([name, of(name)]).toMatchObject([name, { inserted, updated, deleted }]);
    }
    const { entered, left, total } = changed.realtime.segments['seg-vip'] ?? { entered: -1, left: -1, total: -1 };
    expect(of('vip')).toMatchObject({ inserted: entered, deleted: left, rows: total });
    const after = await profiles(await vips(), 'profiles/col-1/{id}');
    expect(of('vip_profiles')).toMatchObject(difference(before, after));
    expect(of('stats')).toMatchObject({ inserted: 1, updated: 0, deleted: 0 });
    const [sample] = await space.query(
      'every_source',
      'select total_profiles::int as total from stats order by sampled_at desc limit 1',
    );
    expect(sample).toEqual({ total: changed.realtime.collections['col-1']?.total });
    expect(of('history')).toMatchObject({ inserted: 0, deleted: 0 });
    const chosenAfter = await space.query(
      'every_source',
      'select id, email, zip, tier, points from members where id in (select id from chosen) order by id',
    );
    expect(await space.query('every_source', 'select id, email, zip, tier, points from chosen order by id')).toEqual(
      chosenAfter,
    );
    expect(chosenBefore.length).toBe(3);
    const tiers = await space.query(
      'every_source',
      "select tier, count(*) as members from members where tier in ('gold', 'silver', 'bronze') group by 1 order by 1",
    );
    expect(await space.query('every_source', 'select tier, members from tiers order by 1')).toEqual(tiers);
    expect((await space.cdsync(['verify', 'configs/every-source.yaml'])).code).toBe(0);
  }, 120_000);
});

import { afterEach, describe, expect, it } from 'vitest';
import type { StreamReport } from '../../src/core/run-report.js';
import type { FaultInput } from '../../src/local-service/faults/fault.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

// What real deployments do and the specification does not say (docs/local-service.md, "Deployments that differ").

const service = { rate_limits: { management: 1000 } };
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();

let space: Workspace;
afterEach(() => space.close());

async function deployment(...behaviours: FaultInput[]): Promise<Workspace> {
  space = await Workspace.open({ profiles: 100, rateLimits: { management: 0 }, behaviours });
  return space;
}

describe('tokens from a host of their own', () => {
  const members = [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }];

  it('are asked for there, and nothing else is', async () => {
    space = await Workspace.open({ profiles: 100, oauthPort: 0 });
    const { clientId: client_id, clientSecret: client_secret, oauthTokenUrl } = space.service;
    const auth = { client_id, client_secret: '${SECRET}' };
    const env = { SECRET: client_secret };
    await space.configure('apart', members, { service: { auth, oauth_token_url: oauthTokenUrl } });
    expect((await space.run('apart', [], env)).report.jobs[0]?.streams[0]).toMatchObject({ status: 'ok', rows: 100 });
    await space.configure('same', members, { service: { auth } });
    const { code, report } = await space.run('same', [], env);
    expect([code, report.error]).toEqual([4, null]);
    expect(report.jobs[0]?.streams[0]?.error?.hint).toContain('`oauth_token_url`');
  });
});

describe('campaign drafts', () => {
  const drafts = [{ name: 'drafts', source: 'campaign_drafts' }];
  const run = () => space.cdsync(['run', 'drafts.json', '--json']);

  it.each([
    ['unstable', '2024-04-01'],
    ['dated', 'unstable'],
  ] as const)('are found under the other version if they are %s alone, and that is said', async (under, configured) => {
    await deployment({ kind: 'drafts_version', under });
    await space.configure('drafts', drafts, { service: { ...service, api_versions: { campaign_drafts: configured } } });
    const { code, stdout, stderr } = await run();
    expect(code).toBe(0);
    expect(JSON.parse(stdout).jobs[0].streams[0]).toMatchObject({ status: 'ok', rows: 12 });
    const other = under === 'unstable' ? 'unstable' : '2024-04-01';
    expect(stderr).toContain(`under version ${other}, and not under ${configured}`);
  });

  it('say nothing if the configured version has them', async () => {
    await deployment({ kind: 'drafts_version' });
    await space.configure('drafts', drafts, { service: { ...service, api_versions: { campaign_drafts: 'unstable' } } });
    const { code, stderr } = await run();
    expect([code, stderr.includes('campaign drafts')]).toEqual([0, false]);
  });

  it('fail with the option to set if no version has them, also where errors have no ids', async () => {
    await deployment({ kind: 'no_error_ids' }, { kind: 'status', status: 404, match: '/campaign-drafts' });
    await space.configure('drafts', drafts, { service });
    const { code, stdout, stderr } = await run();
    expect(code).toBe(1);
    const { error } = JSON.parse(stdout).jobs[0].streams[0];
    expect(error).toMatchObject({ code: 'not_found', request_id: null });
    expect(error.hint).toContain('`api_versions.campaign_drafts`');
    expect(stdout + stderr).not.toMatch(/undefined|request id|trace id/);
  });
});

describe('members of a segment that takes no parameters', () => {
  const gold = [{ name: 'gold', source: 'segment_members', segment: 'seg-gold' }];

  it.each([true, false])('are read with one request (with a total: %s), and planned and checked too', async (total) => {
    await deployment();
    await space.configure('gold', gold);
    const { rows } = streamOf(await space.runWell('gold'), 'gold');
    await space.control('faults', { kind: 'members_whole', total });
    await space.control('stats/reset');
    expect(streamOf(await space.runWell('gold'), 'gold')).toMatchObject({ rows, unchanged: rows, requests: 1 });
    for (const command of ['plan', 'check'])
      expect([command, (await space.cdsync([command, 'gold.json'])).code]).toEqual([command, 0]);
  });

  it('fail with what would help if the one response is not everybody', async () => {
    await deployment({ kind: 'members_whole', most: 3 });
    await space.configure('gold', gold);
    const { code, report } = await space.run('gold');
    expect(code).toBe(1);
    expect(report.jobs[0]?.streams[0]?.error).toMatchObject({
      code: 'members_incomplete',
      hint: expect.stringContaining('with all members, or to take `limit`'),
    });
  });
});

describe('ingest jobs', () => {
  const ingests = (since?: string) => [{ name: 'ingests', source: 'ingest_jobs', ...(since && { since }) }];
  const read = async (): Promise<StreamReport> => streamOf(await space.runWell('ingests'), 'ingests');

  it.each(['ignored', 'refused', 'fresh'] as const)(
    'are read once although each response has a token that is %s',
    async (when_sent) => {
      await deployment({ kind: 'ingest_tokens', when_sent });
      await space.configure('ingests', ingests(daysAgo(30)), { service });
      const { rows, duplicates, requests } = await read();
      expect({ rows, duplicates }).toEqual({ rows: 30, duplicates: 0 });
      expect(requests).toBeLessThan(130);
    },
  );

  it('are all found if a response has at most 30 jobs and leaves out the others', async () => {
    await deployment();
    await space.control('change', { days: 40 });
    await space.configure('ingests', ingests(daysAgo(30)), { service });
    const whole = await read();
    await space.close();
    await deployment({ kind: 'ingest_tokens', most: 30 });
    await space.control('change', { days: 40 });
    await space.configure('ingests', ingests(daysAgo(30)), { service });
    expect(await read()).toMatchObject({ rows: whole.rows, duplicates: 0 });
  });

  it('are asked for by id no more when their tables were skipped', async () => {
    await deployment({ kind: 'ingest_skipped', state: 'SKIPPED' });
    await space.configure('ingests', ingests(daysAgo(20)), { service });
    await read();
    await space.control('stats/reset', {});
    await read();
    // The job of the run that has not ended.
    expect((await space.operations())['GET /api/ingest/jobs/{id}']).toBe(1);
  });

  it.each(['nothing', 'refused'] as const)(
    'are read for 7 days by default; a longer time is reported, and read again while it is empty (%s)',
    async (older) => {
      await deployment({ kind: 'ingest_forgets', older });
      await space.configure('ingests', ingests(), { service });
      const few = await space.cdsync(['run', 'ingests.json']);
      expect(few.stderr).not.toContain('may only have');
      const { rows } = await read();
      await space.configure('ingests', ingests(daysAgo(21)), { service });
      const wide = await space.cdsync(['run', 'ingests.json']);
      expect(wide.stderr.match(/may only have those of the last 7 days/g)).toHaveLength(1);
      // The service remembers again.
      await space.clearFaults();
      const all = await read();
      expect(all.rows).toBeGreaterThan(rows + 10);
      expect((await read()).requests).toBeLessThan(60);
    },
  );
});

describe('workflow runs', () => {
  const runs = (options: object = {}) => [{ name: 'runs', source: 'workflow_runs', since: daysAgo(20), ...options }];
  const read = async (...args: string[]): Promise<StreamReport> => streamOf(await space.runWell('runs', args), 'runs');
  const detailed = 'GET /api/workflow/runs/{id}';
  const asked = async () => (await space.operations())[detailed] ?? 0;
  /** How many runs have a value in each column. */
  async function filled(): Promise<Record<string, unknown>> {
    const columns = ['id', 'principal_name', 'launched_version', 'task_instances', 'error'];
    const known = await space.query('runs', 'from (describe runs)');
    const names = new Set(known.map(({ column_name: name }) => name));
    const counts = columns.filter((name) => names.has(name)).map((name) => `count("${name}")::int as "${name}"`);
    return (await space.query('runs', `select ${counts.join(', ')} from runs`))[0] as Record<string, unknown>;
  }
  async function start(config: string): Promise<void> {
    const where = ['--base-url', space.service.url, '--tenant-id', space.service.tenantId];
    expect((await space.cdsync(['workflow', 'start', config, ...where])).code).toBe(0);
  }

  it('have all their details, which are asked for once', async () => {
    await deployment();
    await space.configure('runs', runs({ page_size: 7 }), { service });
    const { rows } = await read();
    expect(rows).toBeGreaterThan(18);
    expect(await filled()).toEqual({ id: rows, principal_name: rows, launched_version: rows, task_instances: rows });
    expect(await asked()).toBe(rows);
    await space.control('stats/reset', {});
    expect(await read()).toMatchObject({ inserted: 0, updated: 0, deleted: 0, rows });
    // The run that has not ended.
    expect(await asked()).toBe(1);
  });

  it('keep the details that the service leaves out later, and one message reports it', async () => {
    await deployment();
    await space.configure('runs', runs(), { service });
    await start('cg-fail');
    await start('cg-slow');
    await read();
    const open = await filled();
    await space.control('faults', { kind: 'workflow_overview' });
    await space.control('time', { advance_ms: 10_000_000 });
    const later = await space.cdsync(['run', 'runs.json']);
    expect([later.code, later.stderr.match(/what their list says is kept/g)]).toEqual([0, [expect.any(String)]]);
    expect(await filled()).toEqual(open);
    const states = await space.query(
      'runs',
      "select name, state from runs where principal_name = 'default' order by 1",
    );
    expect(states).toEqual([
      { name: 'Broken feed', state: 'failed' },
      { name: 'Full history reload', state: 'succeeded' },
    ]);
    // Even if everything is read again.
    await read('--full');
    expect(await filled()).toEqual(open);
  });

  it('get the details of a failure that happens after they are first read', async () => {
    await deployment();
    await space.configure('runs', runs(), { service });
    await start('cg-platform-fail');
    await read();
    await space.control('time', { advance_ms: 10_000 });
    await read();
    expect(
      await space.query('runs', "select error->>'attribution' as whose from runs where error is not null"),
    ).toEqual([{ whose: 'platform' }]);
  });

  it.each([400, 404] as const)(
    'are kept as the list has them where the details are refused with %i',
    async (status) => {
      await deployment({ kind: 'workflow_overview', status });
      await space.configure('runs', runs(), { service });
      const first = await space.cdsync(['run', 'runs.json']);
      expect([first.code, first.stderr.match(/what their list says is kept/g)?.length]).toEqual([0, 1]);
      const overview = await filled();
      expect(overview).toEqual({ id: expect.any(Number) });
      await space.control('stats/reset', {});
      await read();
      // A few requests are refused, and one is for the run that has not ended: not one for each run.
      expect(await asked()).toBeLessThan(Number(overview.id) / 2);
      await space.clearFaults();
      // More than half of the rows change, which a guard would hold.
      const { rows, updated } = await read('--accept');
      expect(updated).toBeGreaterThanOrEqual(rows - 1);
      expect(await filled()).toMatchObject({ principal_name: rows, task_instances: rows });
    },
  );

  it('resume at the page that was cut short', async () => {
    await deployment();
    await space.configure('runs', runs({ page_size: 5, since: daysAgo(58) }), {
      service: { ...service, concurrency: 1 },
    });
    await space.control('faults', { kind: 'status', status: 401, match: `/workflow/runs/run-`, after: 30 });
    expect((await space.cdsync(['run', 'runs.json'])).code).not.toBe(0);
    await space.clearFaults();
    await space.control('stats/reset', {});
    const { rows } = await read();
    expect(rows).toBeGreaterThan(50);
    expect(await asked()).toBeLessThanOrEqual(rows - 20);
    expect(await filled()).toMatchObject({ principal_name: rows });
  });
});

describe('a start of a workflow', () => {
  it.each(['slash', 'plain'] as const)('works where the router knows one spelling: %s', async (path) => {
    await deployment({ kind: 'workflow_router', path, status: 405 });
    const where = ['--base-url', space.service.url, '--tenant-id', space.service.tenantId];
    const { code, stdout } = await space.cdsync(['workflow', 'start', 'cg-fail', '--wait', '--json', ...where]);
    const { error, run } = JSON.parse(stdout);
    expect([code, error.code, error.message]).toEqual([
      1,
      'workflow_failed',
      expect.stringContaining('has 3 columns, but its table has 4 (attribution: customer)'),
    ]);
    // The data of an error is never shown.
    expect(run.error).toEqual({ type: 'feed_unreadable', message: expect.any(String), attribution: 'customer' });
  });
});

import { describe, expect, it } from 'vitest';
import { publishedLimits } from '../../../src/local-service/limits/family-limits.js';
import { errorBody, published } from '../contract/published.js';
import { violations } from '../contract/shape.js';
import { dayMs, type Item, iso, lists, ManagementCaller } from './management-caller.js';

const ids = (items: readonly Item[], key = 'id') => items.map((item) => item[key] as string);

/** Every point in which the items of a list differ from the published interface. */
function faults(name: string, items: readonly Item[]): string[] {
  const shape = published[name]?.response;
  return shape === undefined || shape === null ? ['nothing is published'] : violations(shape, { data: items });
}

describe('lists of the Management API', () => {
  it.each([
    ['auditEventsPage', 'audit-events'],
    ['campaignsPage', 'campaigns'],
    ['campaignDraftsPage', 'campaign-drafts'],
    ['segmentsPage', 'segments'],
    ['workflowRunsPage', 'workflow/runs'],
  ])('%s: each item is as published', async (name, list) => {
    const caller = await ManagementCaller.start();
    await caller.start('cg-fail');
    caller.clock.jump(5000);
    const items = await caller.items(list);
    expect(items.length).toBeGreaterThan(10);
    expect(faults(name, items)).toEqual([]);
  });

  it.each(lists)('%s is paged by limit, 25 by default, and next_token', async (list, key) => {
    const caller = await ManagementCaller.start();
    const all = await caller.items(list);
    expect(new Set(ids(all, key)).size).toBe(all.length);
    const usual = await caller.read(`/api/${list}`);
    expect(usual.data).toEqual(all.slice(0, 25));
    const limit = Math.min(700, Math.ceil(all.length / 3));
    const pages = await caller.pages(`/api/${list}?limit=${limit}`);
    expect(pages.flatMap(({ data }) => data)).toEqual(all);
    expect(pages.map(({ data }) => data.length).slice(0, -1)).toEqual(pages.slice(1).map(() => limit));
  });

  it.each(lists)('%s has the total only on request', async (list) => {
    const caller = await ManagementCaller.start();
    const all = await caller.items(list);
    expect((await caller.read(`/api/${list}?with_total=true&limit=1`)).total).toBe(all.length);
    expect(await caller.read(`/api/${list}?with_total=false`)).not.toHaveProperty('total');
  });

  it.each(lists)('%s is 400 for wrong parameters, and for tokens of another list', async (list) => {
    const caller = await ManagementCaller.start();
    const other = list === 'segments' ? 'campaigns' : 'segments';
    const { next_token: token } = await caller.read(`/api/${other}?limit=1`);
    const wrong = ['limit=0', 'limit=1001', 'limit=x', 'next_token=', 'next_token=null', `next_token=${token}`];
    for (const query of [...wrong, 'with_total=1', 'limit=1&limit=2']) {
      const { status, body } = await caller.get(`/api/${list}?${query}`);
      expect([query, status, violations(errorBody, body)]).toEqual([query, 400, []]);
    }
  });

  it('a token is valid only with the parameters that it was issued for', async () => {
    const caller = await ManagementCaller.start();
    const { next_token: token } = await caller.read('/api/campaigns?limit=1&destination_data_template_id=ddt-1');
    const next = `next_token=${token}`;
    expect((await caller.get(`/api/campaigns?${next}&destination_data_template_id=ddt-1`)).status).toBe(200);
    expect((await caller.get(`/api/campaigns?${next}&destination_data_template_id=ddt-2`)).status).toBe(400);
    expect((await caller.get(`/api/campaigns?${next}`)).status).toBe(400);
  });
});

describe('GET /audit-events', () => {
  it('gives up to 1000 a page', async () => {
    const caller = await ManagementCaller.start({ maxPageSize: 100 });
    expect((await caller.read('/api/audit-events?limit=1000')).data).toHaveLength(1000);
    expect((await caller.get('/api/audit-events?limit=1001')).status).toBe(400);
  });

  it('bounds happened_at: from is included, to is not', async () => {
    const caller = await ManagementCaller.start();
    const all = await caller.items('audit-events');
    const times = all.map(({ happened_at: at }) => at as string).sort();
    const [from, to] = [times[500] as string, times[900] as string];
    const found = await caller.items(`audit-events?happened_from=${from}&happened_to=${to}`);
    expect(ids(found, 'event_id')).toEqual(
      ids(all, 'event_id').filter((_, at) => all[at]?.happened_at >= from && all[at]?.happened_at < to),
    );
    expect(found.map(({ happened_at: at }) => at)).toContain(from);
    expect(found.map(({ happened_at: at }) => at)).not.toContain(to);
    expect(await caller.items(`audit-events?happened_from=${from}&happened_to=${from}`)).toEqual([]);
    expect((await caller.items(`audit-events?happened_from=${from}`)).length).toBe(all.length - 500);
  });

  it.each([
    'happened_from=yesterday',
    'happened_to=1767225600000',
    'happened_from=2026-02-31',
    'happened_from=2025-01-02&happened_to=2025-01-01',
    'happened_from=2025-01-01&happened_from=2025-01-02',
  ])('is 400 for %s', async (query) => {
    const caller = await ManagementCaller.start();
    const { status, body } = await caller.get(`/api/audit-events?${query}`);
    expect([status, body.message]).toEqual([400, expect.stringContaining('happened_')]);
  });

  it('puts events that come late in their place by time', async () => {
    const caller = await ManagementCaller.start();
    const at = caller.clock.now() - 3 * dayMs;
    const late = { happened_at: iso(at), event_type: ':service.test/late', object_id: 'late-1' };
    await caller.control('audit', { events: [late] });
    const [found, ...others] = await caller.items(`audit-events?happened_from=${iso(at)}&happened_to=${iso(at + 1)}`);
    expect(found).toMatchObject(late);
    expect(others.length).toBeLessThan(2);
  });
});

describe('GET /campaigns and GET /campaign-drafts', () => {
  it.each(['campaigns', 'campaign-drafts'])('%s narrows by destination_data_template_id', async (list) => {
    const caller = await ManagementCaller.start();
    const all = await caller.items(list);
    const parts: Item[] = [];
    for (const template of ['ddt-1', 'ddt-2', 'ddt-3']) {
      const found = await caller.items(`${list}?destination_data_template_id=${template}`);
      expect(found.length).toBeGreaterThan(2);
      parts.push(...found);
    }
    expect(ids(parts).sort()).toEqual(ids(all).sort());
    expect(await caller.items(`${list}?destination_data_template_id=none`)).toEqual([]);
  });

  it('drafts exist in the version unstable alone, unless a deployment differs', async () => {
    const caller = await ManagementCaller.start();
    const statuses = async () =>
      Promise.all(
        ['unstable', '2024-04-01'].map(
          async (version) => (await caller.get('/api/campaign-drafts', { 'api-version': version })).status,
        ),
      );
    expect(await statuses()).toEqual([200, 404]);
    for (const [fault, expected] of [
      [{ status: 401, message: 'Authentication Required' }, [200, 401]],
      [{ status: 400 }, [200, 400]],
      [{ status: 405 }, [200, 405]],
      [{ under: 'dated' }, [404, 200]],
      [{ under: 'both' }, [200, 200]],
      [{ under: 'none' }, [404, 404]],
    ] as const) {
      await caller.control('faults', { kind: 'drafts_version', ...fault });
      expect([fault, await statuses()]).toEqual([fault, expected]);
      await caller.clearFaults();
    }
  });

  it('some campaigns have a delivery time, others have none', async () => {
    const caller = await ManagementCaller.start();
    const timed = (await caller.items('campaigns')).map((item) => 'deliver_at' in item);
    expect([timed.includes(true), timed.includes(false)]).toEqual([true, true]);
  });
});

describe('GET /segments', () => {
  it('has a status for each, and no real-time segment', async () => {
    const caller = await ManagementCaller.start();
    const all = await caller.items('segments');
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set(['active', 'paused']));
    expect(ids(all).filter((id) => ['seg-vip', 'seg-gold', 'seg-lapsed'].includes(id))).toEqual([]);
    expect((await caller.get(`/prof/segments/${all[0]?.id}/profiles`)).status).toBe(404);
  });
});

describe('GET /ingest/jobs', () => {
  const window = 'created_from=2025-12-20&created_to=2025-12-27';

  it('gives every job of a window on one page, and ignores limit and token', async () => {
    const caller = await ManagementCaller.start();
    const page = await caller.read(`/api/ingest/jobs?${window}`);
    expect(Object.keys(page)).toEqual(['data']);
    expect(page.data).toHaveLength(7);
    expect(faults('ingestJobs', page.data)).toEqual([]);
    expect(await caller.read(`/api/ingest/jobs?${window}&limit=1&next_token=x`)).toEqual(page);
    expect((await caller.read(`/api/ingest/jobs?${window}&with_total=true`)).total).toBe(7);
  });

  it('includes created_from and excludes created_to', async () => {
    const caller = await ManagementCaller.start();
    const [job] = (await caller.jobs(7)) as [Item];
    const at = Date.parse(job.tables[0].started_at);
    const within = async (from: number, to: number) =>
      ids((await caller.read(`/api/ingest/jobs?created_from=${iso(from)}&created_to=${iso(to)}`)).data);
    expect(await within(at, at + 1)).toEqual([job.id]);
    expect(await within(at - 1, at)).toEqual([]);
    expect(await within(at + 1, at + 2)).toEqual([]);
  });

  it.each([
    ['a year and a day', 'created_from=2026&created_to=2026-01-08', 200],
    ['a month and its eighth day', 'created_from=2025-12&created_to=2025-12-08', 200],
    ['times without seconds or zone', 'created_from=2025-12-20T10:00&created_to=2025-12-27T10:00:00', 200],
    ['an offset', 'created_from=2025-12-20T10:00:00%2B02:00&created_to=2025-12-27T08:00:00Z', 200],
    ['a millisecond more than a week', 'created_from=2025-12-20&created_to=2025-12-27T00:00:00.001Z', 400],
    ['a whole month', 'created_from=2025-11&created_to=2025-12', 400],
    ['bounds in the wrong order', 'created_from=2025-12-27&created_to=2025-12-20', 400],
    ['no bounds', '', 400],
    ['no end', 'created_from=2025-12-20', 400],
    ['no beginning', 'created_to=2025-12-20', 400],
    ['a day that does not exist', 'created_from=2025-11-31&created_to=2025-12-02', 400],
    ['words instead of times', 'created_from=now&created_to=then', 400],
  ])('given %s', async (_, query, expected) => {
    const caller = await ManagementCaller.start();
    const { status, body } = await caller.get(`/api/ingest/jobs?${query}`);
    expect(status).toBe(expected);
    if (status === 400) expect(body.message).toMatch(/created_(from|to)/);
  });
});

describe('GET /ingest/jobs/{id}', () => {
  it('gives the job as the list has it, and 404 for an unknown job', async () => {
    const caller = await ManagementCaller.start();
    for (const job of await caller.jobs(14)) {
      expect((await caller.get(`/api/ingest/jobs/${job.id}`)).body).toEqual(job);
    }
    const { status, body } = await caller.get('/api/ingest/jobs/ing-none');
    expect([status, violations(errorBody, body)]).toEqual([404, []]);
  });
});

describe('every request of the Management API', () => {
  const paths = [
    ...lists.map(([list, , permission]) => ['GET', `/api/${list}`, permission] as const),
    ['GET', '/api/ingest/jobs?created_from=2025-12-20&created_to=2025-12-21', 'ingest-jobs:read'],
    ['GET', '/api/ingest/jobs/ing-none', 'ingest-jobs:read'],
    ['GET', '/api/workflow/runs/run-none', 'workflow-runs:read'],
    ['POST', '/api/workflow/runs', 'workflow-runs:write'],
    ['POST', '/api/workflow/runs/', 'workflow-runs:write'],
    ['POST', '/api/workflow/runs/run-none/stop', 'workflow-runs:write'],
  ] as const;

  it.each(paths)('%s %s needs %s: 403 names it', async (method, path, permission) => {
    const caller = await ManagementCaller.start();
    const others = [...new Set(paths.map(([, , one]) => one))].filter((one) => one !== permission);
    const lacking = await caller.as('lacking', { permissions: others });
    const refused = await lacking.send(method, path);
    expect([refused.status, refused.body.message]).toEqual([403, expect.stringContaining(permission)]);
    await caller.control('keys', { action: 'permit', key: 'lacking', permissions: [permission] });
    expect((await lacking.send(method, path)).status).not.toBe(403);
  });

  it.each(paths)('%s %s needs version 2024-04-01 or unstable', async (method, path) => {
    const caller = await ManagementCaller.start();
    for (const version of [undefined, '2025-07-31', '']) {
      const { status, body } = await caller.send(method, path, { 'api-version': version });
      expect([status, body.message]).toEqual([400, expect.stringContaining('api-version')]);
    }
    const { body } = await caller.send(method, path, { 'api-version': 'unstable' });
    expect(String(body.message)).not.toContain('api-version');
  });

  it.each(paths)('%s %s refuses a version as some deployments do', async (method, path) => {
    const caller = await ManagementCaller.start();
    await caller.control('faults', { kind: 'version_refusal', version: '2024-04-01' });
    for (const version of ['2024-04-01', '2020-01-01']) {
      const { status, body } = await caller.send(method, path, { 'api-version': version });
      expect([version, status, body.message]).toEqual([version, 401, 'Authentication Required']);
    }
    await caller.clearFaults();
    await caller.control('faults', { kind: 'version_refusal', status: 400, message: 'no longer supported' });
    const { status, body } = await caller.send(method, path, { 'api-version': '2020-01-01' });
    expect([status, body.message]).toEqual([400, 'no longer supported']);
    expect((await caller.send(method, path, { 'api-version': 'unstable' })).status).not.toBe(401);
  });

  it.each([
    ...lists.map(([list]) => [`/api/${list}`, list === 'workflow/runs' ? 'GET, POST' : 'GET'] as const),
    ['/api/ingest/jobs', 'GET'],
    ['/api/ingest/jobs/ing-1', 'GET'],
    ['/api/workflow/runs/', 'POST'],
    ['/api/workflow/runs/run-1', 'GET'],
    ['/api/workflow/runs/run-1/stop', 'POST'],
  ] as const)('%s allows %s: 405 for the rest', async (path, allow) => {
    const caller = await ManagementCaller.start();
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      if (allow.split(', ').includes(method)) continue;
      const { status, headers, body } = await caller.send(method, path);
      expect([method, status, headers.get('allow'), body.status]).toEqual([method, 405, allow, 405]);
    }
  });

  it('uses a budget of 10 per second that a tenant and its sandboxes share: 429 with Retry-After', async () => {
    const caller = await ManagementCaller.start({ rateLimits: publishedLimits });
    const sandbox = await caller.as('nightly', { tenant: 'acme-sb-1' });
    const statuses = async (by: ManagementCaller, count: number) => {
      const responses = await Promise.all(Array.from({ length: count }, () => by.get('/api/segments')));
      return responses.map(({ status }) => status).sort();
    };
    expect(await statuses(caller, 6)).toEqual([200, 200, 200, 200, 200, 200]);
    expect(await statuses(sandbox, 5)).toEqual([200, 200, 200, 200, 429]);
    const refused = await caller.post('/api/workflow/runs', { config_id: 'cg-1' });
    expect([refused.status, refused.headers.get('retry-after'), refused.body.status]).toEqual([429, '1', 429]);
    expect((await caller.get('/api/indexes', { 'api-version': '2025-07-31' })).status).toBe(200);
    caller.clock.jump(1000);
    expect(await statuses(sandbox, 11)).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
    expect(await caller.control('stats', {}, 'GET')).toHaveProperty('body.peak_per_second.acme.management', 12);
  });
});

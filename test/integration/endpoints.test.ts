import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { requestControl } from '../fixtures/control.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 500, rateLimits: { management: 0 } });
  await cp(join(import.meta.dirname, '..', '..', 'configs'), join(space.folder, 'configs'), { recursive: true });
});
afterAll(() => space.close());

/** Every row of the specification's endpoint tables (section 4), as the local service names it. */
const endpoints = [
  'POST /api/v0/oauth2/token',
  'GET /api/indexes',
  'GET /api/indexes/{id}',
  'GET /api/indexes/{id}/profiles',
  'GET /api/indexes/{id}/profiles/{profile-id}',
  'POST /prof/lookup/{collection-id}/keychain',
  'GET /prof/lookup/{collection-id}/keychain',
  'GET /prof/profiles/{collection-id}/{profile-id}/segments',
  'GET /prof/profiles/{collection-id}/{profile-id}',
  'GET /prof/segments/{segment-id}/profiles',
  'GET /prof/collections/{collection-id}/stats',
  'GET /prof/collections/{collection-id}/history',
  'GET /api/audit-events',
  'GET /api/campaign-drafts',
  'GET /api/campaigns',
  'GET /api/ingest/jobs',
  'GET /api/ingest/jobs/{id}',
  'GET /api/segments',
  'GET /api/workflow/runs',
  'GET /api/workflow/runs/{id}',
  'POST /api/workflow/runs/',
  'POST /api/workflow/runs/{id}/stop',
  'POST /prof/events/{stream-id}',
];

async function asked(): Promise<string[]> {
  const stats = await requestControl(space.service, 'stats');
  return Object.keys(((await stats.json()) as { operations: Record<string, number> }).operations);
}

it('every endpoint is reached through the command line', async () => {
  const { url, tenantId, clientId, clientSecret } = space.service;
  const env = { CDS_BASE_URL: url, CDS_TENANT_ID: tenantId, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
  const cdsync = async (...words: string[]) => {
    const { code, stdout, stderr } = await space.cdsync(words, env);
    if (code !== 0) throw new Error(`cdsync ${words.join(' ')}: ${code} ${stdout} ${stderr}`);
    return stdout;
  };
  const config = 'configs/every-source.yaml';
  await cdsync('check', config);
  await cdsync('run', config);
  // Deletes of profiles are confirmed one by one; runs that had not ended are requested by id.
  await space.control('change', { days: 3, deleted: 0.01 });
  await cdsync('run', config);
  const [profile] = await space.query('every_source', 'select links.loyalty_id[1] as id from vip_profiles limit 1');
  for (const method of ['post', 'get'])
    await cdsync('lookup', config, 'col-1', `loyalty_id=${profile?.id}`, '--method', method, '--json');
  const started = JSON.parse(await cdsync('workflow', 'start', config, 'cg-slow', '--json')) as { run: { id: string } };
  await cdsync('workflow', 'status', config, started.run.id);
  await cdsync('workflow', 'stop', config, started.run.id);
  // An index that is missing from the list is requested by id before it counts as deleted.
  await space.control('profiles', { index: 'passing', records: ['{"id":"a","index_id":"passing","attributes":{}}'] });
  await cdsync('run', config);
  await space.control('faults', { kind: 'small_pages', match: '/api/indexes?', size: 2, count: 1 });
  await space.control('faults', { kind: 'empty', match: '/api/indexes?', after: 1, count: 1 });
  await cdsync('run', config, '--stream', 'indexes');

  // Events are sent by a destination.
  await cdsync('run', 'configs/activate.yaml', '--no-push');
  expect(await asked()).not.toContain('POST /prof/events/{stream-id}');
  await cdsync('push', 'configs/activate.yaml');

  const found = await asked();
  expect(endpoints.filter((endpoint) => !found.includes(endpoint))).toEqual([]);
}, 120_000);

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { permissions } from '../../../src/local-service/keys/api-key.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';

let service: LocalService;
let caller: Caller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 500 });
  caller = new Caller(service);
});
afterAll(() => service.close());

async function keyOf(tenant: string, name: string, allowed?: readonly string[]): Promise<Caller> {
  await caller.control('keys', { action: 'create', name, tenant, permissions: allowed });
  const { body } = await caller.control('keys', { action: 'issue', key: name, tenant });
  return new Caller(service, body.token, tenant);
}

describe('tenants and sandboxes (specification, section 5)', () => {
  it('a sandbox has keys and profiles of its own', async () => {
    const sandbox = await keyOf('acme-sb-12', 'default');
    const path = `/api/indexes/${await sandbox.indexId('loyalty_members')}/profiles?limit=500`;
    const ours = new Set((await caller.records(path)).map(({ id }) => id));
    const theirs = await sandbox.records(path);
    expect(theirs.length).toBe(500);
    expect(theirs.filter(({ id }) => ours.has(id))).toEqual([]);
  });

  it('a key of one tenant is not valid for another', async () => {
    const sandbox = await keyOf('acme-sb-13', 'default');
    expect((await sandbox.get('/api/indexes')).status).toBe(200);
    expect((await sandbox.get('/api/indexes', { 'service-tenant': 'acme' })).status).toBe(401);
    expect((await caller.get('/api/indexes', { 'service-tenant': 'acme-sb-13' })).status).toBe(401);
  });

  it('if keys of several tenants have one name, a request must name the tenant too', async () => {
    await keyOf('acme-sb-14', 'default');
    await expect(caller.control('keys', { action: 'issue', key: 'default' })).rejects.toThrow('409');
    await expect(caller.control('keys', { action: 'issue', key: 'nobody' })).rejects.toThrow('404');
    await expect(caller.control('keys', { action: 'create', name: 'default' })).rejects.toThrow('409');
  });
});

describe('permissions of a key (specification, section 5)', () => {
  it.each([
    ['/api/indexes', 'indexes:read'],
    ['/api/indexes/{id}', 'indexes:read'],
    ['/api/indexes/{id}/profiles', 'index-profiles:read'],
    ['/api/indexes/{id}/profiles/p-1', 'index-profiles:read'],
  ])('%s needs %s, and 403 names it', async (template, permission) => {
    const path = template.replace('{id}', await caller.indexId('loyalty_members'));
    const name = `lacks ${template}`;
    const lacking = await keyOf(
      'acme',
      name,
      permissions.filter((one) => one !== permission),
    );
    const { status, body } = await lacking.get(path);
    expect(status).toBe(403);
    expect(body.message).toContain(permission);
    await caller.control('keys', { action: 'permit', key: name, permissions: [permission] });
    expect([200, 404]).toContain((await lacking.get(path)).status);
  });

  it('are refused if they are unknown', async () => {
    await expect(
      caller.control('keys', { action: 'create', name: 'odd', permissions: ['everything'] }),
    ).rejects.toThrow(/400.*everything/);
  });
});

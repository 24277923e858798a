import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { permissions } from '../../../src/local-service/keys/api-key.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller, readResponse } from './caller.js';

/** Cases beyond those of the specification suite: sections 2.7, 3, 4.9 and 5. */
let service: LocalService;
let caller: Caller;
beforeEach(async () => {
  service = await startLocalService({ profiles: 10 });
  caller = new Caller(service);
});
afterEach(() => service.close());

const manage = async (action: string, options: object = {}) =>
  (await caller.control('keys', { action, ...options })).body;
const issue = async (options: object = {}): Promise<string> => (await manage('issue', options)).token;
const status = async (token: string) => (await caller.get('/api/indexes', { authorization: `Bearer ${token}` })).status;
const days = (count: number) => caller.control('time', { advance_ms: count * 86_400_000 });

describe('tokens', () => {
  it('that are deposed do not outlive their own expiry', async () => {
    const old = await issue({ days: 5 });
    await issue({ rotate: true });
    await days(6);
    expect(await status(old)).toBe(401);
  });

  it('of a key that was never rotated are not old', async () => {
    const [first, second] = [await issue(), await issue()];
    await manage('revoke', { which: 'old' });
    expect([await status(first), await status(second)]).toEqual([200, 200]);
  });

  it('of other keys are not touched by a rotation', async () => {
    await manage('create', { name: 'second' });
    const other = await issue({ key: 'second' });
    await issue({ rotate: true });
    await issue({ rotate: true });
    expect(await status(other)).toBe(200);
  });

  it('from the token endpoint end after expires_in seconds; an unknown tenant gets none', async () => {
    const form = { grant_type: 'client_credentials', client_id: service.clientId, client_secret: service.clientSecret };
    const exchange = async (tenant: string) => {
      const headers = { 'content-type': 'application/x-www-form-urlencoded', 'x-service-tenant': tenant };
      const init = { method: 'POST', headers, body: String(new URLSearchParams(form)) };
      return readResponse(await fetch(service.oauthTokenUrl, init));
    };
    expect((await exchange('stranger')).status).toBe(401);
    const { body } = await exchange('acme');
    await caller.control('time', { advance_ms: body.expires_in * 1000 - 10_000 });
    expect(await status(body.access_token)).toBe(200);
    await caller.control('time', { advance_ms: 11_000 });
    expect(await status(body.access_token)).toBe(401);
  });
});

describe('keys', () => {
  it('of one name in several tenants need the tenant beside the name', async () => {
    await manage('create', { name: 'default', tenant: 'acme-sb-14' });
    await expect(issue({ key: 'default' })).rejects.toThrow('409');
    await expect(issue({ key: 'missing' })).rejects.toThrow('404');
    await expect(manage('create', { name: 'default' })).rejects.toThrow('409');
    expect(await status(await issue({ key: 'default', tenant: 'acme' }))).toBe(200);
  });

  it('of one tenant get no page by a token of another', async () => {
    await manage('create', { name: 'sand', tenant: 'acme-sb-1' });
    const sandbox = new Caller(service, await issue({ key: 'sand' }), 'acme-sb-1');
    const [ours, theirs] = [await caller.read('/api/indexes?limit=1'), await sandbox.read('/api/indexes?limit=1')];
    const responses = [ours, theirs].map(({ next_token }) => sandbox.get(`/api/indexes?next_token=${next_token}`));
    expect((await Promise.all(responses)).map((each) => each.status)).toEqual([400, 200]);
  });

  it('take only permissions that exist', async () => {
    await expect(manage('create', { name: 'odd', permissions: ['everything'] })).rejects.toThrow(/400.*everything/);
  });

  it.each([
    ['/api/indexes', 'indexes:read'],
    ['/api/indexes/{id}', 'indexes:read'],
    ['/api/indexes/{id}/profiles', 'index-profiles:read'],
    ['/api/indexes/{id}/profiles/p-1', 'index-profiles:read'],
  ])('read %s with %s, and without it get a 403 that names it', async (template, permission) => {
    const path = template.replace('{id}', await caller.indexId('loyalty_members'));
    const others = permissions.filter((one) => one !== permission);
    await manage('permit', { permissions: others });
    const { status: refused, body } = await caller.get(path);
    expect([refused, body.message]).toEqual([403, expect.stringContaining(permission)]);
    await manage('permit', { permissions: [permission] });
    expect([200, 404]).toContain((await caller.get(path)).status);
  });
});

import { expect } from 'vitest';
import { type Checks, claimsOf, Setting } from './setting.js';

/** Keys, tokens and credentials. */
export const section2Security: Checks = {
  '2.7.rows.API key.1': async (setting) => {
    const key = await setting.key({ tenant: 'acme-sb-27' });
    const token = await key.issue();
    expect((await setting.callerOf(token, 'acme-sb-27').get('/api/indexes')).status).toBe(200);
    const remote = await setting.callerOf(token).get('/api/indexes');
    expect([remote.status, remote.body.message]).toEqual([401, expect.stringContaining('tenant')]);
    const caller = setting.callerOf(token, 'acme-sb-27');
    caller.headers['api-version'] = '2024-04-01';
    caller.headers['content-type'] = 'application/json';
    const started = await fetch(`${setting.service.url}/api/workflow/runs`, {
      method: 'POST',
      headers: caller.headers as Record<string, string>,
      body: '{"config_id":"cg-1"}',
    });
    const { id } = (await started.json()) as { id: string };
    const run = await caller.get(`/api/workflow/runs/${id}?view=verbose`);
    expect(run.body).toMatchObject({ principal_name: key.name, tenant: 'acme-sb-27' });
  },
  '2.7.rows.API key.2': async (setting) => {
    const key = await setting.key();
    const { keys } = (await setting.profile.control('keys', {}, 'GET')).body;
    expect(keys.map(({ name }: { name: string }) => name)).toContain(key.name);
    const [first, second] = [await key.issue(), await key.issue()];
    const rotated = await key.issue({ rotate: true });
    const [one, same, other] = [first, second, rotated].map((token) => claimsOf(token).secret);
    expect(one).toMatch(/./);
    expect([same === one, other === one]).toEqual([true, false]);
  },
  '2.7.rows.API key.3': async (setting) => {
    const [ours, theirs] = [await setting.key(), await setting.key({ tenant: 'acme-sb-28' })];
    const { keys } = (await setting.profile.control('keys', {}, 'GET')).body;
    const tenantsOf = (wanted: string) =>
      keys.filter(({ name }: { name: string }) => name === wanted).map(({ tenant }: { tenant: string }) => tenant);
    expect([tenantsOf(ours.name), tenantsOf(theirs.name)]).toEqual([['acme'], ['acme-sb-28']]);
    expect((await setting.callerOf(await ours.issue(), 'acme-sb-28').get('/api/indexes')).status).toBe(401);
    expect((await setting.callerOf(await theirs.issue(), 'acme').get('/api/indexes')).status).toBe(401);
  },
  '2.7.rows.Access token.1': async (setting) => {
    const token = await (await setting.key()).issue();
    const [head = '', , signature] = token.split('.');
    expect(JSON.parse(Buffer.from(head, 'base64url').toString())).toMatchObject({ typ: 'JWT', alg: 'HS256' });
    expect(signature).toMatch(/^[\w-]{43}$/);
    expect((await setting.profile.get('/api/indexes', { authorization: `Bearer ${token}` })).status).toBe(200);
    expect((await setting.profile.get('/api/indexes', { authorization: `Basic ${token}` })).status).toBe(401);
  },
  '2.7.rows.Access token.2': async () => {
    const own = await Setting.own();
    const key = await own.key();
    const tokens = [await key.issue({ days: 3 }), await key.issue({ days: 5 })];
    await own.days(2.99);
    expect(await key.accepted(...tokens)).toEqual([true, true]);
    await own.days(0.02);
    expect(await key.accepted(...tokens)).toEqual([false, true]);
    await own.days(2);
    expect(await key.accepted(...tokens)).toEqual([false, false]);
  },
  '2.7.rows.Deposed token': async () => {
    const own = await Setting.own();
    const key = await own.key();
    const old = await key.issue({ days: null });
    await key.issue({ rotate: true });
    expect(await key.accepted(old)).toEqual([true]);
    await own.days(31);
    expect(await key.accepted(old)).toEqual([false]);
  },
  '2.7.rows.OAuth credentials': async (setting) => {
    const key = await setting.key();
    const { clientId: client_id, clientSecret: client_secret } = key;
    const response = await fetch(`${setting.service.url}/api/v0/oauth2/token`, {
      method: 'POST',
      headers: { 'x-service-tenant': 'acme' },
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret }),
    });
    const { access_token: token } = (await response.json()) as { access_token: string };
    expect(claimsOf(token).sub).toBe(claimsOf(await key.issue()).sub);
    expect(await key.accepted(token)).toEqual([true]);
  },
};

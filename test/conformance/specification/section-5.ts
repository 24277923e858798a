import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CompactSign } from 'jose';
import { expect, onTestFinished } from 'vitest';
import { getWorkflowRunOperation } from '../../../src/api/management-api.js';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import {
  collectionStatsOperation,
  getRealtimeProfileOperation,
  lookupProfileOperation,
  profileSegmentsPageOperation,
  sendEventOperation,
} from '../../../src/api/realtime-api.js';
import { Secret } from '../../../src/core/secret.js';
import { emptyPage, givenToken, scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import { Caller } from '../local-service/caller.js';
import { RealtimeCaller } from '../local-service/realtime-caller.js';
import { everyNameIsHere } from './every-name.js';
import { type Checks, claimsOf, Setting } from './setting.js';

const readsProfiles = ['profile-collections:read', 'pii:read'];
const readsSegments = ['real-time-segments:read', 'pii:read'];

const tokenAuth = (token: string) => ({ type: 'token', token: new Secret(token) }) as const;

/** The statuses that a token gets for the indexes, the Management API, a lookup and an event stream of a tenant. */
async function opened({ service, ada }: Setting, token: string, tenant: string): Promise<number[]> {
  const [caller, realtime] = [new Caller(service, token, tenant), new RealtimeCaller(service, token, tenant)];
  return [
    (await caller.get('/api/indexes')).status,
    (await caller.get('/api/segments', { 'api-version': '2024-04-01' })).status,
    (await realtime.post('/prof/events/evs-1', { keys: ada })).status,
    (await realtime.post('/prof/lookup/col-1/keychain', { keys: ada })).status,
  ];
}

/** A token with the same head and claims, signed with another key. */
async function forged(token: string, changes: object = {}): Promise<string> {
  const content = Buffer.from(JSON.stringify({ ...claimsOf(token), ...changes }));
  return new CompactSign(content).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(Buffer.alloc(32, 7));
}

/** Tokens, keys and tenants. */
export const section5: Checks = {
  '5.1.1': async ({ ada }) => {
    const service = await scriptedService(emptyPage);
    const { send } = testClient(serviceOptions(service.baseUrl));
    await send(indexesPageOperation({}));
    await send(getWorkflowRunOperation('run-1'));
    await send(lookupProfileOperation('col-1', { keys: ada }));
    await send(sendEventOperation('evs-1', {}));
    const sent = service.received.map(({ headers }) => headers.authorization);
    expect(sent).toEqual(Array.from({ length: 4 }, () => `Bearer ${givenToken}`));
  },
  '5.1.2': async (setting) => {
    const key = await setting.key();
    const token = await key.issue();
    const [head, claims] = token.split('.') as [string, string];
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${claims}.`;
    const others = [await forged(token), unsigned, `${head}.${claims}`, `${token}x`];
    expect(await key.accepted(token, ...others)).toEqual([true, false, false, false, false]);
  },
  '5.2': async (setting) => {
    const key = await setting.key({ permissions: [] });
    const token = await key.issue();
    const caller = setting.callerOf(token);
    expect((await caller.get('/api/indexes', { authorization: `Bearer ${token}x` })).status).toBe(401);
    expect((await caller.get('/api/indexes')).status).toBe(403);
    await key.permit('indexes:read');
    expect((await caller.get('/api/indexes')).status).toBe(200);
    await key.permit();
    expect((await caller.get('/api/indexes')).status).toBe(403);
  },
  '5.3': async (setting) => {
    const key = await setting.key();
    const token = await key.issue({ days: null });
    await key.issue({ rotate: true });
    const twin = await key.issue({ days: null, rotate: true });
    const [old, fresh] = [claimsOf(token), claimsOf(twin)];
    expect({ ...old, secret: 0, iat: 0, jti: 0 }).toEqual({ ...fresh, secret: 0, iat: 0, jti: 0 });
    expect(await key.accepted(token, twin)).toEqual([false, true]);
  },
  '5.5.1': async (setting) => {
    const sandbox = await setting.key({ tenant: 'acme-sb-51' });
    const asSandbox = setting.client({ tenantId: 'acme-sb-51', auth: tokenAuth(await sandbox.issue()) });
    const { profile_id: id } = await setting.realtime.lookup(setting.ada);
    const operation = getRealtimeProfileOperation('col-1', id);
    expect(await setting.client().send(operation)).toMatchObject({ profile_id: id });
    expect(await asSandbox.failure(operation)).toMatchObject({ code: 'not_found' });
  },
  '5.5.2': async (setting) => {
    const service = await scriptedService(emptyPage);
    for (const tenantId of ['acme', 'acme-sb-7']) {
      await testClient(serviceOptions(service.baseUrl, { tenantId })).send(indexesPageOperation({}));
    }
    expect(service.received.map(({ url, headers }) => [headers['service-tenant'], headers.host, url.href])).toEqual([
      ['acme', new URL(service.baseUrl).host, 'http://service/api/indexes'],
      ['acme-sb-7', new URL(service.baseUrl).host, 'http://service/api/indexes'],
    ]);
    const key = await setting.key({ tenant: 'acme-sb-52' });
    expect(await key.accepted(await key.issue())).toEqual([true]);
  },
  '5.5.3': async (setting) => {
    const key = await setting.key({ tenant: 'acme-sb-53' });
    const caller = setting.callerOf(await key.issue(), 'acme-sb-53');
    const ours = await setting.profile.records(`${await setting.members()}?limit=200`);
    const theirs = await caller.records(`/api/indexes/${await caller.indexId('loyalty_members')}/profiles?limit=200`);
    expect(theirs.length).toBeGreaterThan(0);
    const ids = new Set(ours.map(({ id }) => id));
    expect(theirs.filter(({ id }) => ids.has(id))).toEqual([]);
  },
  '5.5.4': async (setting) => {
    // A sandbox does not exist until it has a key.
    expect((await setting.callerOf(setting.service.token, 'acme-sb-54').get('/api/indexes')).status).toBe(401);
    const key = await setting.key({ tenant: 'acme-sb-54' });
    expect(await key.accepted(await key.issue(), setting.service.token)).toEqual([true, false]);
    const client = setting.client({ tenantId: 'acme-sb-54' });
    const refused = await client.failure(indexesPageOperation({}));
    expect([refused.code, refused.hint]).toEqual(['unauthorized', expect.stringContaining('tenant')]);
  },
  '5.5.5': async (setting) => {
    const key = await setting.key({ tenant: 'acme-sb-55' });
    const token = await key.issue();
    // The event creates Ada in the sandbox, so that the lookup finds her.
    expect(await opened(setting, token, 'acme-sb-55')).toEqual([200, 200, 202, 200]);
    expect(await opened(setting, token, 'acme')).toEqual([401, 401, 401, 401]);
    expect(await opened(setting, setting.service.token, 'acme-sb-55')).toEqual([401, 401, 401, 401]);
  },
  '5.6': async () => {
    const service = await scriptedService(emptyPage);
    everyNameIsHere();
    const { port } = new URL(service.baseUrl);
    await testClient(serviceOptions(`http://acme.service.test:${port}`)).send(collectionStatsOperation('c'));
    const [request] = service.received;
    expect(request?.headers).toMatchObject({ host: `acme.service.test:${port}`, 'service-tenant': 'acme' });
  },
  '5.7.1': async (setting) => {
    const path = '/prof/lookup/col-1/keychain';
    for (const missing of readsProfiles) {
      const caller = await setting.callerWith(...readsProfiles.filter((one) => one !== missing));
      const { status, body } = await caller.post(path, { keys: setting.ada });
      expect([status, body.message]).toEqual([403, expect.stringContaining(missing)]);
    }
    const token = await (await setting.key({ permissions: [] })).issue();
    const client = setting.client({ auth: tokenAuth(token) });
    const { hint } = await client.failure(lookupProfileOperation('col-1', { keys: setting.ada }));
    for (const permission of readsProfiles) expect(hint).toContain(permission);
  },
  '5.7.2': async (setting) => {
    const { profile_id: id } = await setting.realtime.lookup(setting.ada);
    for (const missing of readsSegments) {
      const caller = await setting.callerWith(...readsSegments.filter((one) => one !== missing));
      const { status, body } = await caller.get(`/prof/profiles/col-1/${id}/segments`);
      expect([status, body.message]).toEqual([403, expect.stringContaining(missing)]);
    }
    const token = await (await setting.key({ permissions: [] })).issue();
    const client = setting.client({ auth: tokenAuth(token) });
    const { hint } = await client.failure(profileSegmentsPageOperation('col-1', id, {}));
    for (const permission of readsSegments) expect(hint).toContain(permission);
  },
  '5.9.1': async (setting) => {
    const key = await setting.key();
    const kept = await key.issue({ days: 7 });
    const { iat, exp } = claimsOf(kept) as { iat: number; exp: number };
    expect(exp - iat).toBe(7 * 86_400);
    expect(claimsOf(await key.issue()).secret).toBe(claimsOf(kept).secret);
    expect(claimsOf(await key.issue({ rotate: true })).secret).not.toBe(claimsOf(kept).secret);
  },
  '5.9.2': async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-spec-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const stateFile = join(folder, 'state.json');
    const own = await Setting.own({ stateFile });
    const key = await own.key();
    const tokens = [await key.issue(), await key.issue({ rotate: true })];
    const { text } = await own.profile.control('keys', {}, 'GET');
    const stored = await readFile(stateFile, 'utf8');
    expect([text, stored].map((all) => all.includes(key.name))).toEqual([true, true]);
    for (const token of tokens) {
      for (const part of token.split('.').slice(1)) expect(text + stored).not.toContain(part);
    }
  },
  '5.10': async () => {
    const own = await Setting.own();
    const [key, other] = [await own.key(), await own.key()];
    const tokens = [await key.issue({ days: null }), await key.issue({ days: 20 })];
    const untouched = await other.issue({ days: null });
    await key.issue({ rotate: true });
    expect(await key.accepted(...tokens)).toEqual([true, true]);
    await own.days(25);
    expect(await key.accepted(...tokens)).toEqual([true, false]);
    await own.days(5.01);
    expect(await key.accepted(...tokens, untouched)).toEqual([false, false, true]);
  },
  '5.11.1': async (setting) => {
    const key = await setting.key();
    const before = await key.issue();
    const [since, later] = [await key.issue({ rotate: true }), await key.issue()];
    await key.revoke('old');
    expect(await key.accepted(before, since, later)).toEqual([false, true, true]);
  },
  '5.11.2': async (setting) => {
    const key = await setting.key();
    const tokens = [await key.issue(), await key.issue({ rotate: true }), await key.issue({ days: null })];
    expect(await key.accepted(...tokens)).toEqual([true, true, true]);
    await key.revoke('all');
    expect(await key.accepted(...tokens)).toEqual([false, false, false]);
  },
  '5.11.3': async (setting) => {
    const key = await setting.key();
    const old = await key.issue();
    const fresh = await key.issue({ rotate: true });
    await key.revoke('old');
    await key.revoke('all');
    await key.drop();
    await key.permit('indexes:read');
    await key.issue();
    await key.issue({ rotate: true });
    expect(await key.accepted(old, fresh)).toEqual([false, false]);
  },
  '5.12': async (setting) => {
    const key = await setting.key();
    const auth = {
      type: 'client_credentials',
      clientId: key.clientId,
      clientSecret: new Secret(key.clientSecret),
    } as const;
    const exchanges = async () => {
      const { operations } = (await setting.profile.control('stats', {}, 'GET')).body;
      return operations['POST /api/v0/oauth2/token'] ?? 0;
    };
    const { send, clock } = setting.client({ auth });
    const before = await exchanges();
    for (let request = 0; request < 3; request += 1) await send(indexesPageOperation({}));
    expect(await exchanges()).toBe(before + 1);
    clock.jump(3_601_000);
    await send(indexesPageOperation({}));
    expect(await exchanges()).toBe(before + 2);
    await key.revoke('all');
    expect(await send(indexesPageOperation({}))).toHaveProperty('data');
    expect(await exchanges()).toBe(before + 3);
  },
};

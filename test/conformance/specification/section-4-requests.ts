import { expect } from 'vitest';
import { indexesPageOperation, profilesPageOperation } from '../../../src/api/profile-api.js';
import { collectionStatsOperation, lookupProfileOperation, sendEventOperation } from '../../../src/api/realtime-api.js';
import { emptyPage, givenToken, scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import { everyNameIsHere } from './every-name.js';
import { type Checks, Setting } from './setting.js';

/** The requests that the client sends for operations, to a service that accepts everything. */
async function sentFor(...operations: Parameters<ReturnType<typeof testClient>['send']>[0][]) {
  const service = await scriptedService(emptyPage);
  const { send } = testClient(serviceOptions(service.baseUrl));
  for (const operation of operations) await send(operation);
  return service.received;
}

/** Rules that all requests share. */
export const section4Requests: Checks = {
  '4.1.rows.Authorization': async (setting) => {
    for (const caller of [setting.profile, setting.management]) {
      const path = caller === setting.profile ? '/api/indexes' : '/api/segments';
      expect((await caller.get(path)).status).toBe(200);
      for (const authorization of [undefined, 'Bearer', 'Bearer x.y.z', setting.service.token]) {
        expect((await caller.get(path, { authorization })).status).toBe(401);
      }
    }
    const [request] = await sentFor(indexesPageOperation({}));
    expect(request?.headers.authorization).toBe(`Bearer ${givenToken}`);
  },
  '4.1.rows.service-tenant.1': async ({ profile, management }) => {
    expect((await profile.get('/api/indexes', { 'service-tenant': undefined })).status).toBe(400);
    expect((await management.get('/api/segments', { 'service-tenant': undefined })).status).toBe(400);
    const [request] = await sentFor(indexesPageOperation({}));
    expect(request?.headers['service-tenant']).toBe('acme');
  },
  '4.1.rows.service-tenant.2': async (setting) => {
    const key = await setting.key({ tenant: 'acme-sb-41' });
    const token = await key.issue();
    const statuses = ['acme-sb-41', 'acme', 'acme-sb-42'].map(
      async (tenant) => (await setting.callerOf(token, tenant).get('/api/indexes')).status,
    );
    expect(await Promise.all(statuses)).toEqual([200, 401, 401]);
  },
  '4.1.rows.service-tenant.3': async () => {
    const own = await Setting.own({ profiles: 1, tenantHeader: 'Brand-Tenant' });
    expect(await own.client({ tenantHeader: 'Brand-Tenant' }).send(indexesPageOperation({}))).toHaveProperty('data');
    expect(await own.client().failure(indexesPageOperation({}))).toMatchObject({ status: 400 });
  },
  '4.1.rows.api-version': async ({ profile }) => {
    expect((await profile.get('/api/indexes', { 'api-version': undefined })).status).toBe(400);
    for (const version of ['31.07.2025', '2025-07-30']) {
      expect((await profile.get('/api/indexes', { 'api-version': version })).status).toBe(400);
    }
    const [request] = await sentFor(indexesPageOperation({}));
    expect(request?.headers['api-version']).toBe('2025-07-31');
  },
  '4.1.rows.Accept': async ({ profile }) => {
    const responses = [
      await profile.get('/api/indexes'),
      await profile.get('/api/indexes', { accept: 'application/json' }),
    ];
    expect(responses[0]?.body).toEqual(responses[1]?.body);
    for (const { status, headers } of responses) {
      expect([status, headers.get('content-type')]).toEqual([200, expect.stringMatching(/^application\/json/)]);
    }
  },
  '4.1.text.1': async ({ realtime }) => {
    const path = '/prof/collections/col-1/stats';
    expect((await realtime.get(path)).status).toBe(200);
    expect((await realtime.get(path, { authorization: undefined })).status).toBe(401);
    expect((await realtime.get(path, { 'service-tenant': undefined })).status).toBe(400);
    const [request] = await sentFor(collectionStatsOperation('c'));
    expect(request?.headers).toMatchObject({ authorization: `Bearer ${givenToken}`, 'service-tenant': 'acme' });
  },
  '4.1.text.2': async ({ realtime }) => {
    expect((await realtime.get('/prof/collections/col-1/stats', { 'api-version': undefined })).status).toBe(200);
    const sent = await sentFor(collectionStatsOperation('c'), sendEventOperation('s', {}));
    for (const { headers, url } of sent) {
      expect(headers).not.toHaveProperty('api-version');
      expect(url.searchParams.has('api_version')).toBe(false);
    }
  },
  '4.1.text.3': async ({ realtime }) => {
    const [event] = await sentFor(sendEventOperation('s', { a: 'ä' }));
    expect([event?.headers['content-type'], event?.body]).toEqual(['application/json', '{"a":"ä"}']);
    const [read] = await sentFor(indexesPageOperation({}));
    expect(read?.headers).not.toHaveProperty('content-type');
    expect((await realtime.post('/prof/events/evs-1', '{}', { 'content-type': 'text/plain' })).status).toBe(415);
  },
  '4.1.text.4': async () => {
    const service = await scriptedService(emptyPage);
    for (const base of [service.baseUrl, `${service.baseUrl}/eu/`]) {
      const { send } = testClient(serviceOptions(base));
      await send(indexesPageOperation({}));
      await send(lookupProfileOperation('c-1', { keys: { email: 'a' } }));
    }
    const asked = service.received.map(({ method, url }) => `${method} ${url.pathname}${url.search}`);
    const [indexes, lookup] = ['/api/indexes', '/prof/lookup/c-1/keychain'];
    expect(asked).toEqual([`GET ${indexes}`, `POST ${lookup}`, `GET /eu${indexes}`, `POST /eu${lookup}`]);
  },
  '4.1.text.5': async (setting) => {
    everyNameIsHere();
    const { port } = new URL(setting.service.url);
    const { send } = setting.client({ baseUrl: `http://acme.eu.service.test:${port}` });
    const there = await send(indexesPageOperation({}));
    expect(there).toEqual(await setting.client().send(indexesPageOperation({})));
    expect(await send(collectionStatsOperation('col-1'))).toHaveProperty('total_profiles');
  },
  '4.1.text.6': async (setting) => {
    for (const [path, caller] of await setting.lists()) {
      const [first, second] = [await caller.read(`${path}?limit=1`), await caller.read(`${path}?limit=2`)];
      expect([path, first.data]).toEqual([path, second.data.slice(0, 1)]);
      expect(second.data).toHaveLength(2);
    }
  },
  '4.1.text.7': async (setting) => {
    for (const [path, caller] of await setting.lists()) {
      const whole = await caller.records(`${path}?limit=1000`);
      const limit = Math.min(1000, Math.ceil(whole.length / 3));
      const pages = await caller.pages(`${path}?limit=${limit}`);
      expect(pages.length).toBeGreaterThan(1);
      expect([path, pages.flatMap(({ data }) => data)]).toEqual([path, whole]);
    }
  },
  '4.1.text.8': async () => {
    const tokens = ['a+b/c==', '%2B&limit=1#', 'ÿ "quoted"', ' ', '臺'];
    const service = await scriptedService(
      ...tokens.map((token) => ({ status: 200, body: { data: [], next_token: token } })),
    );
    const { send } = testClient(serviceOptions(service.baseUrl));
    for (const nextToken of tokens) await send(indexesPageOperation({ nextToken }));
    expect(service.received.map(({ url }) => url.searchParams.getAll('next_token'))).toEqual(
      tokens.map((one) => [one]),
    );
    expect(service.received.map(({ url }) => url.searchParams.size)).toEqual(tokens.map(() => 1));
  },
  '4.1.text.9': async (setting) => {
    for (const [path, caller] of await setting.lists()) {
      for (const token of ['null', '']) expect((await caller.get(`${path}?next_token=${token}`)).status).toBe(400);
    }
    const sent = await sentFor(
      ...[null, '', undefined].map((nextToken) =>
        indexesPageOperation({ ...(nextToken !== undefined && { nextToken }) }),
      ),
      profilesPageOperation({ indexId: 'i', nextToken: null }),
    );
    expect(sent.map(({ url }) => url.search)).toEqual(['', '', '', '']);
  },
};

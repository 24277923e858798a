import { expect } from 'vitest';
import {
  getRealtimeProfileOperation,
  lookupProfileByGetOperation,
  lookupProfileOperation,
  readRealtimeProfile,
  sendEventOperation,
} from '../../../src/api/realtime-api.js';
import { scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import { type Checks, Setting, timestamp } from './setting.js';

const keychain = '/prof/lookup/col-1/keychain';
const readsProfiles = ['profile-collections:read', 'pii:read'];
const readsSegments = ['real-time-segments:read', 'pii:read'];

/** The statuses of a path: first with all of these permissions, then with all but one. */
async function statusesWith(setting: Setting, permissions: readonly string[], path: string): Promise<number[]> {
  const sets = [permissions, ...permissions.map((missing) => permissions.filter((one) => one !== missing))];
  return Promise.all(sets.map(async (set) => (await (await setting.callerWith(...set)).get(path)).status));
}

async function adaSegments({ realtime, ada }: Setting): Promise<string> {
  return `/prof/profiles/col-1/${(await realtime.lookup(ada)).profile_id}/segments`;
}

/** Lookups. */
export const section4Lookup: Checks = {
  '4.6.text.1': async ({ realtime, ada }) => {
    const id = (await realtime.lookup(ada)).profile_id;
    for (const [name, value] of Object.entries(ada)) {
      expect((await realtime.lookup({ [name]: value })).profile_id).toBe(id);
    }
    expect((await realtime.post(keychain, { keys: { ...ada, email: 'absent@example.org' } })).status).toBe(404);
  },
  '4.6.text.2': async ({ ada }) => {
    const service = await scriptedService({ status: 200, body: { profile_id: 'p' } });
    await testClient(serviceOptions(service.baseUrl)).send(lookupProfileOperation('col-1', { keys: ada }));
    const [request] = service.received;
    expect(JSON.parse(request?.body ?? '')).toEqual({ keys: ada });
    expect([request?.method, request?.url.href]).toEqual(['POST', `http://service${keychain}`]);
  },
  '4.6.text.3': async (setting) => {
    const asks = async (...permissions: string[]) =>
      (await (await setting.callerWith(...permissions)).post(keychain, { keys: setting.ada })).status;
    expect(await asks(...readsProfiles)).toBe(200);
    expect(await asks('profile-collections:read')).toBe(403);
    expect(await asks('pii:read')).toBe(403);
  },
  '4.6.text.4': async (setting) => {
    const { realtime, ada } = setting;
    expect((await realtime.post('/prof/lookup/col-none/keychain', { keys: ada })).status).toBe(404);
    const failure = await setting.client().failure(lookupProfileOperation('col-none', { keys: ada }));
    expect(failure).toMatchObject({ code: 'not_found', serviceMessage: expect.stringContaining('collection') });
  },
  '4.6.rows.collection-id': async ({ realtime, ada }) => {
    expect((await realtime.lookup(ada, 'col-1')).collection_id).toBe('col-1');
    expect((await realtime.post('/prof/lookup/col-2/keychain', { keys: ada })).status).toBe(404);
  },
  '4.6.rows.keys': async ({ realtime, ada }) => {
    expect((await realtime.post(keychain, { keys: ada })).status).toBe(200);
    for (const body of [{}, { keys: {} }, { keys: [] }, { keys: 'email' }, { keys: { email: {} } }, [], 'no JSON']) {
      expect([body, (await realtime.post(keychain, body)).status]).toEqual([body, 400]);
    }
  },
  '4.6.rows.enrich': async ({ realtime }) => {
    const [id = ''] = await realtime.members('seg-gold');
    const keys = { email: (await realtime.profile(id)).links.email?.[0] };
    const names = async (enrich?: boolean) =>
      Object.keys((await realtime.post(keychain, { keys, enrich })).body.attributes);
    expect(await names(false)).toEqual(await names());
    expect(await names(true)).toEqual(expect.arrayContaining([...(await names()), 'churn_risk']));
    expect(await names()).not.toContain('churn_risk');
    expect((await realtime.post(keychain, { keys, enrich: 'yes' })).status).toBe(400);
  },
  '4.6.rows.200': async ({ realtime, ada, service }) => {
    const { status, headers, body } = await realtime.post(keychain, { keys: ada });
    expect([status, Object.keys(body).sort()]).toEqual([
      200,
      ['attributes', 'collection_id', 'created_at', 'links', 'profile_id', 'ticked_at', 'updated_at'],
    ]);
    const location = headers.get('location') ?? '';
    expect(location.startsWith(service.url)).toBe(true);
    expect((await realtime.get(location.slice(service.url.length))).body).toEqual(body);
  },
  '4.6.rows.400': async ({ realtime }) => {
    const { status, body } = await realtime.post(keychain, { keys: {} });
    expect([status, body.message]).toEqual([400, 'no keychain keys were provided']);
  },
  '4.6.rows.404': async (setting) => {
    const keys = { email: 'absent@example.org' };
    const { status, text } = await setting.realtime.post(keychain, { keys });
    expect(status).toBe(404);
    const failure = await setting.client().failure(lookupProfileOperation('col-1', { keys }));
    expect(failure).toMatchObject({ code: 'not_found' });
    expect(`${text} ${failure.message}`).not.toContain(keys.email);
  },
  '4.7.text.1': async (setting) => {
    const { realtime, ada } = setting;
    const query = new URLSearchParams(ada);
    const [get, post] = [await realtime.get(`${keychain}?${query}`), await realtime.post(keychain, { keys: ada })];
    expect([get.status, get.body]).toEqual([200, post.body]);
    expect(get.headers.get('location')).toBe(post.headers.get('location'));
    expect((await realtime.get(keychain)).status).toBe(400);
    expect((await realtime.get(`${keychain}?email=absent%40example.org`)).status).toBe(404);
    const read = await setting.client().send(lookupProfileByGetOperation('col-1', { keys: ada }));
    expect(read).toEqual(post.body);
  },
};

/** Memberships, events and collections. */
export const section4Realtime: Checks = {
  '4.8.text.1': async (setting) => {
    const path = await adaSegments(setting);
    const { data } = (await setting.realtime.get(path)).body;
    const ids = data.map(({ segment_id: id }: { segment_id: string }) => id);
    expect(ids).toEqual(expect.arrayContaining(['seg-vip', 'seg-gold']));
    expect(ids).not.toContain('seg-lapsed');
  },
  '4.8.text.2': async (setting) => {
    expect(await statusesWith(setting, readsSegments, await adaSegments(setting))).toEqual([200, 403, 403]);
  },
  '4.8.text.3': async () => {
    const own = await Setting.own();
    const path = await adaSegments(own);
    for (const segment of ['seg-vip', 'seg-gold']) {
      expect(await own.realtime.segmentsOf((await own.realtime.lookup(own.ada)).profile_id)).toContain(segment);
      await own.realtime.control('realtime', { segment, exists: false });
    }
    expect((await own.realtime.get(path)).body).toMatchObject({ data: [] });
    expect((await own.realtime.get(path.replace('col-1', 'col-none'))).status).toBe(404);
  },
  '4.8.rows.collection-id': async (setting) => {
    const path = await adaSegments(setting);
    expect((await setting.realtime.get(path)).status).toBe(200);
    expect((await setting.realtime.get(path.replace('col-1', 'col-2'))).status).toBe(404);
  },
  '4.8.rows.profile-id': async (setting) => {
    const { realtime } = setting;
    const gold = new Set(await realtime.members('seg-gold'));
    const other = (await realtime.members('seg-lapsed')).find((id) => !gold.has(id)) as string;
    expect(await realtime.segmentsOf(other)).not.toContain('seg-gold');
    expect((await realtime.get('/prof/profiles/col-1/p-none/segments')).status).toBe(404);
  },
  '4.8.rows.limit': async (setting) => {
    const path = await adaSegments(setting);
    expect((await setting.realtime.read(`${path}?limit=1`)).data).toHaveLength(1);
    expect((await setting.realtime.get(`${path}?limit=0`)).status).toBe(400);
  },
  '4.8.rows.next_token': async (setting) => {
    const path = await adaSegments(setting);
    const pages = await setting.realtime.pages(`${path}?limit=1`);
    expect(pages.map(({ data }) => data.length)).toEqual([1, 1]);
    expect(pages.flatMap(({ data }) => data)).toEqual((await setting.realtime.read(path)).data);
    expect((await setting.realtime.get(`${path}?next_token=x`)).status).toBe(400);
  },
  '4.8.text.4': async (setting) => {
    const path = await adaSegments(setting);
    const { status, body } = await setting.realtime.get(`${path}?limit=1`);
    expect([status, Object.keys(body)]).toEqual([200, ['data', 'next_token', 'total']]);
    expect(Object.keys(body.data[0])).toEqual(['segment_id', 'segment_name']);
    expect(body.total).toBe(2);
    const [member = ''] = await setting.realtime.members('seg-lapsed');
    const other = await setting.realtime.read(`/prof/profiles/col-1/${member}/segments`);
    expect(other.total).toBe(other.data.length);
  },

  '4.10.rows.POST /events/{stream-id}': async (setting) => {
    const { realtime, ada } = setting;
    const sent = await setting.client().send(sendEventOperation('evs-1', { keys: ada, attributes: { city: 'Ulm' } }));
    expect([sent, (await realtime.lookup(ada)).attributes.city]).toEqual([null, 'Ulm']);
    expect((await realtime.post('/prof/events/evs-none', {})).status).toBe(404);
  },
  '4.10.rows.GET /profiles/{collection-id}/{profile-id}': async (setting) => {
    const found = await setting.realtime.lookup(setting.ada);
    const operation = getRealtimeProfileOperation('col-1', found.profile_id);
    expect(await setting.read(operation, readRealtimeProfile)).toEqual(found);
    expect((await setting.realtime.get('/prof/profiles/col-1/p-none')).status).toBe(404);
  },
  '4.10.rows.GET /segments/{segment-id}/profiles': async ({ realtime, ada }) => {
    const members = await realtime.members('seg-gold', 3);
    expect(members).toEqual(await realtime.members('seg-gold', 1000));
    expect(new Set(members).size).toBe(members.length);
    expect(members).toContain((await realtime.lookup(ada)).profile_id);
    const [one = ''] = members;
    expect((await realtime.profile(one)).attributes.tier).toBe('gold');
  },
  '4.10.rows.GET /collections/{collection-id}/stats': async ({ realtime }) => {
    const before = await realtime.total();
    await realtime.event({ keys: { email: 'one-more@example.org' } });
    expect(await realtime.total()).toBe(before + 1);
    expect((await realtime.get('/prof/collections/col-none/stats')).status).toBe(404);
  },
  '4.10.rows.GET /collections/{collection-id}/history': async ({ realtime }) => {
    const { data, scale } = (await realtime.get('/prof/collections/col-1/history')).body;
    expect(scale).toBe('day');
    const times = data.map(({ bucket }: { bucket: string }) => Date.parse(bucket));
    expect(times.slice(1).every((time: number, at: number) => time - times[at] === 86_400_000)).toBe(true);
    expect(data[0].bucket).toMatch(timestamp);
    expect(data.at(-1).count).toBe(await realtime.total());
  },
};

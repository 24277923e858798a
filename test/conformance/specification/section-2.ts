import { expect } from 'vitest';
import {
  getIndexOperation,
  getProfileOperation,
  indexesPageOperation,
  profilesPageOperation,
  readIndexes,
} from '../../../src/api/profile-api.js';
import { getRealtimeProfileOperation, readRealtimeProfile } from '../../../src/api/realtime-api.js';
import type { EndForm } from '../../../src/local-service/operations/listing.js';
import { readProfiles } from '../../fixtures/decoders.js';
import { scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import type { HttpResult } from '../local-service/caller.js';
import { type Checks, Setting, timestamp } from './setting.js';

/** The values of all members with such a name, at any depth. It skips attributes and links, whose names are free. */
function valuesOf(names: RegExp, value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    if (name === 'attributes' || name === 'links') return [];
    return names.test(name) ? [member] : valuesOf(names, member);
  });
}

/** Things of every kind, as the service returns them. */
async function things(setting: Setting): Promise<unknown[]> {
  const pages = await Promise.all((await setting.lists()).map(([path, caller]) => caller.read(path)));
  return [...pages.flatMap(({ data }) => data), await setting.realtime.lookup(setting.ada)];
}

async function indexes({ profile }: Setting): Promise<Record<string, unknown>[]> {
  return (await profile.get('/api/indexes')).body.data;
}

/** One error of each kind that the service gives on request. */
async function errors({ profile, management, realtime }: Setting): Promise<HttpResult[]> {
  return Promise.all([
    profile.get('/api/indexes?limit=0'),
    profile.get('/api/indexes', { authorization: undefined }),
    profile.get('/api/indexes/none'),
    profile.send('DELETE', '/api/indexes'),
    management.get('/api/workflow/runs/none'),
    realtime.post('/prof/lookup/col-1/keychain', { keys: {} }),
    realtime.post('/prof/events/evs-paused', {}),
  ]);
}

const refused = indexesPageOperation({ limit: 0 });

/** Resources and their fields. */
export const section2: Checks = {
  '2.text.1': async (setting) => {
    const times = valuesOf(/_at$/, await things(setting));
    expect(times.length).toBeGreaterThan(50);
    for (const time of times) {
      expect(time).toMatch(timestamp);
      expect(new Date(String(time)).toISOString()).toBe(time);
    }
  },
  '2.text.2': async (setting) => {
    const ids = valuesOf(/(^|_)id$/, await things(setting));
    expect(ids.length).toBeGreaterThan(50);
    expect(ids.filter((id) => typeof id !== 'string' || id === '')).toEqual([]);
    const service = await scriptedService({ status: 200, body: {} });
    const { send } = testClient(serviceOptions(service.baseUrl));
    const odd = ['a/b', '%2F', 'x?y#z', ' ', '1e3', '臺', '..;', 'ID', 'id'];
    for (const id of odd) await send(getProfileOperation(id, id));
    const parts = service.received.map(({ url }) => url.pathname.split('/').map(decodeURIComponent));
    expect(parts).toEqual(odd.map((id) => ['', 'api', 'indexes', id, 'profiles', id]));
  },

  '2.1.rows.id': async (setting) => {
    const ids = (await indexes(setting)).map(({ id }) => id as string);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(await setting.client().send(getIndexOperation(id))).toMatchObject({ id });
  },
  '2.1.rows.name': async (setting) => {
    const names = (await indexes(setting)).map(({ name }) => name);
    expect(names).toEqual(['loyalty_members', 'newsletter_subscribers', 'store_visitors']);
  },
  '2.1.rows.description': async (setting) => {
    for (const { description } of await indexes(setting)) expect(description).toMatch(/\w+ \w+/);
  },
  '2.1.rows.created_at': async (setting) => {
    for (const { created_at } of await indexes(setting)) {
      expect(created_at).toMatch(timestamp);
      expect(Date.parse(String(created_at))).toBeLessThan(Date.now());
    }
  },
  '2.1.rows.updated_at': async (setting) => {
    for (const { created_at, updated_at } of await indexes(setting)) {
      expect(updated_at).toMatch(timestamp);
      expect(Date.parse(String(updated_at))).toBeGreaterThanOrEqual(Date.parse(String(created_at)));
    }
  },
  '2.1.text.1': async (setting) => {
    for (const { name } of await indexes(setting)) {
      const profiles = await setting.profile.records(`${await setting.members(String(name))}?limit=200`);
      const fields = new Set(profiles.flatMap(({ attributes }) => Object.keys(attributes)));
      expect(fields.size).toBeGreaterThan(0);
      expect(fields.size).toBeLessThanOrEqual(30);
    }
  },

  '2.2.rows.id': async (setting) => {
    const path = await setting.members();
    const profiles = await setting.profile.records(`${path}?limit=200`);
    expect(new Set(profiles.map(({ id }) => id)).size).toBe(profiles.length);
    for (const one of profiles.slice(0, 3)) expect((await setting.profile.get(`${path}/${one.id}`)).body).toEqual(one);
  },
  '2.2.rows.index_id': async (setting) => {
    for (const { id, name } of await indexes(setting)) {
      const { data } = await setting.profile.read(await setting.members(String(name)));
      expect(new Set(data.map(({ index_id }) => index_id))).toEqual(new Set([id]));
    }
  },
  '2.2.rows.attributes': async (setting) => {
    const own = await Setting.own();
    const forms: unknown[] = [{ a: 1 }, [{ a: 1 }], {}, { a: { b: [null] } }, null];
    const records = forms.map((attributes, at) => ({ id: `p${at}`, index_id: 'i', attributes }));
    const { body } = await own.profile.control('profiles', { index: 'odd', records });
    const page = await own.read(profilesPageOperation({ indexId: body.id }), readProfiles);
    expect(page.data.map(({ attributes }) => attributes)).toEqual(forms);
    const { data } = await setting.profile.read(await setting.members());
    expect(data.every(({ attributes }) => Object.keys(attributes).length > 10)).toBe(true);
  },
  '2.2.text.1': async (setting) => {
    const path = await setting.members();
    const { data } = await setting.profile.read(path);
    for (const attribute of ['country', 'tier', 'city', 'zip', 'language', 'is_active']) {
      const value = encodeURIComponent(String(data[0]?.attributes[attribute]));
      const found = await setting.profile.records(`${path}?filter[${attribute}]=${value}`);
      expect(found.map(({ id }) => id)).toContain(data[0]?.id);
    }
    const closed = Object.keys(data[0]?.attributes ?? {}).find((name) => name === 'points');
    expect((await setting.profile.get(`${path}?filter[${closed}]=1`)).status).toBe(400);
  },

  '2.3.rows.collection_id': async ({ realtime, ada }) => {
    expect((await realtime.lookup(ada)).collection_id).toBe('col-1');
    await realtime.event({ keys: { email: 'guest@example.org' } }, 'evs-2');
    expect((await realtime.lookup({ email: 'guest@example.org' }, 'col-2')).collection_id).toBe('col-2');
  },
  '2.3.rows.profile_id': async ({ realtime, ada }) => {
    const found = await realtime.lookup(ada);
    expect(await realtime.profile(found.profile_id)).toEqual(found);
  },
  '2.3.rows.attributes': async (setting) => {
    const [id = ''] = await setting.realtime.members('seg-gold');
    const plain = (await setting.realtime.profile(id)).attributes;
    const enriched = (await setting.realtime.profile(id, 'col-1', '?enrich=true')).attributes;
    expect(enriched).toMatchObject(plain);
    expect(Object.keys(enriched).length).toBeGreaterThan(Object.keys(plain).length);
    const read = await setting.read(getRealtimeProfileOperation('col-1', id, { enrich: true }), readRealtimeProfile);
    expect(read.attributes).toEqual(enriched);
  },
  '2.3.rows.created_at': async ({ realtime, ada }) => {
    const { created_at: before } = await realtime.lookup(ada);
    expect(before).toMatch(timestamp);
    await realtime.event({ keys: ada, attributes: { again: 1 } });
    expect((await realtime.lookup(ada)).created_at).toBe(before);
  },
  '2.3.rows.updated_at': async ({ realtime, ada }) => {
    const { updated_at: before } = await realtime.lookup(ada);
    await realtime.event({ keys: ada, attributes: { again: 2 } });
    const { updated_at: after } = await realtime.lookup(ada);
    expect(after).toMatch(timestamp);
    expect(Date.parse(after)).toBeGreaterThan(Date.parse(before));
  },
  '2.3.rows.ticked_at': async ({ realtime, ada }) => {
    expect((await realtime.lookup(ada)).ticked_at).toMatch(timestamp);
  },
  '2.3.rows.links': async ({ realtime }) => {
    const [id = ''] = await realtime.members('seg-gold');
    const { links } = await realtime.profile(id);
    const keys = Object.entries(links).flatMap(([name, values]) => values.map((value) => ({ [name]: value })));
    expect(Object.keys(links)).toEqual(expect.arrayContaining(['email', 'phone']));
    for (const key of keys) expect((await realtime.lookup(key)).profile_id).toBe(id);
  },

  '2.4.rows.segment_id': async ({ realtime, ada }) => {
    const { profile_id: id } = await realtime.lookup(ada);
    const segments = await realtime.segmentsOf(id);
    expect(segments.length).toBeGreaterThan(1);
    for (const segment of segments) expect(await realtime.members(segment)).toContain(id);
  },
  '2.4.rows.segment_name': async ({ realtime, ada }) => {
    const { profile_id: id } = await realtime.lookup(ada);
    const { data } = (await realtime.get(`/prof/profiles/col-1/${id}/segments`)).body;
    expect(data).toContainEqual({ segment_id: 'seg-gold', segment_name: 'Gold tier' });
  },

  '2.5.rows.data': async (setting) => {
    for (const [path, caller] of await setting.lists()) expect((await caller.read(path)).data).toBeInstanceOf(Array);
  },
  '2.5.rows.next_token': async () => {
    for (const endForm of ['empty', 'null', 'absent'] satisfies EndForm[]) {
      const own = await Setting.own({ endForm });
      const last = await own.profile.read('/api/indexes');
      expect('next_token' in last ? last.next_token : 'absent').toBe(
        { empty: '', null: null, absent: 'absent' }[endForm],
      );
      expect((await own.profile.read('/api/indexes?limit=1')).next_token).toMatch(/./);
      expect(await own.read(indexesPageOperation({}), readIndexes)).toMatchObject({ nextToken: null });
    }
  },
  '2.5.rows.total': async (setting) => {
    for (const [path, caller] of await setting.lists()) {
      const all = await caller.records(`${path}?limit=1000`);
      expect((await caller.read(`${path}?with_total=true&limit=1`)).total).toBe(all.length);
    }
  },

  '2.6.rows.status': async (setting) => {
    const errorsOfAll = await errors(setting);
    expect(errorsOfAll.map(({ status }) => status)).toEqual([400, 401, 404, 405, 404, 400, 409]);
    for (const { status, body } of errorsOfAll) expect(body.status).toBe(status);
  },
  '2.6.rows.message': async (setting) => {
    for (const { body } of await errors(setting)) expect(body.message).toMatch(/\w+ \w+/);
    const error = await setting.client().failure(refused);
    expect(error.message).toContain('limit must be a positive integer');
  },
  '2.6.rows.request_id': async (setting) => {
    const ids = (await errors(setting)).map(({ body }) => body.request_id);
    expect(new Set(ids.filter((id) => typeof id === 'string' && id !== '')).size).toBe(ids.length);
    const service = await scriptedService({ status: 400, body: { status: 400, message: 'no', request_id: 'r-17' } });
    const error = await testClient(serviceOptions(service.baseUrl)).failure(refused);
    expect([error.requestId, error.message]).toEqual(['r-17', expect.stringContaining('r-17')]);
  },
  '2.6.rows.trace_id': async (setting) => {
    const ids = (await errors(setting)).map(({ body }) => body.trace_id);
    expect(new Set(ids.filter((id) => typeof id === 'string' && id !== '')).size).toBe(ids.length);
    const service = await scriptedService({ status: 400, body: { status: 400, message: 'no', trace_id: 't-18' } });
    const error = await testClient(serviceOptions(service.baseUrl)).failure(refused);
    expect([error.traceId, error.message]).toEqual(['t-18', expect.stringContaining('t-18')]);
  },
};

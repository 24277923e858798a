import { expect } from 'vitest';
import {
  filterParameters,
  getIndexOperation,
  getProfileOperation,
  indexesPageOperation,
  profilesPageOperation,
} from '../../../src/api/profile-api.js';
import { operations } from '../../../src/local-service/operations/table.js';
import { readProfiles } from '../../fixtures/decoders.js';
import { emptyPage, scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import { type Checks, Setting } from './setting.js';

const errorFields = ['status', 'message', 'request_id', 'trace_id'];

/** A service with 30 additional, empty indexes. */
async function withManyIndexes(): Promise<Setting> {
  const own = await Setting.own({ profiles: 1 });
  for (let n = 0; n < 30; n += 1) await own.profile.control('profiles', { index: `made_${n}`, records: [] });
  return own;
}

/** Indexes and their profiles. */
export const section4Indexes: Checks = {
  '4.2.text.1': async ({ profile }) => {
    const { data } = await profile.read('/api/indexes');
    expect(data.map((index) => (index as unknown as { name: string }).name)).toContain('loyalty_members');
    const first = await profile.read('/api/indexes?limit=1');
    expect([first.data, typeof first.next_token]).toEqual([data.slice(0, 1), 'string']);
  },
  '4.2.rows.limit': async () => {
    const { profile } = await withManyIndexes();
    const sizes = async (query: string) => (await profile.pages(`/api/indexes${query}`)).map(({ data }) => data.length);
    expect(await sizes('')).toEqual([25, 8]);
    expect(await sizes('?limit=12')).toEqual([12, 12, 9]);
    for (const limit of ['0', '-1', '1.5', 'ten', '']) {
      expect((await profile.get(`/api/indexes?limit=${limit}`)).status).toBe(400);
    }
  },
  '4.2.rows.next_token': async ({ profile }) => {
    const first = await profile.read('/api/indexes?limit=2');
    const second = await profile.read(`/api/indexes?limit=2&next_token=${first.next_token}`);
    expect([...first.data, ...second.data]).toEqual((await profile.read('/api/indexes')).data);
    expect(second.next_token).toBeUndefined();
  },
  '4.2.rows.with_total.1': async ({ profile }) => {
    expect((await profile.read('/api/indexes?with_total=true&limit=1')).total).toBe(3);
    expect(await profile.read('/api/indexes?with_total=false')).toEqual(await profile.read('/api/indexes'));
  },
  '4.2.rows.with_total.2': async () => {
    const service = await scriptedService(emptyPage);
    const { send } = testClient(serviceOptions(service.baseUrl));
    await send(indexesPageOperation({}));
    await send(profilesPageOperation({ indexId: 'i', withTotal: false }));
    await send(indexesPageOperation({ withTotal: true }));
    expect(service.received.map(({ url }) => url.searchParams.get('with_total'))).toEqual([null, null, 'true']);
  },
  '4.2.text.2': async ({ profile }) => {
    const { status, body } = await profile.get('/api/indexes?limit=2&with_total=true');
    expect([status, Object.keys(body).sort()]).toEqual([200, ['data', 'next_token', 'total']]);
    for (const index of body.data) {
      expect(Object.keys(index).sort()).toEqual(['created_at', 'description', 'id', 'name', 'updated_at']);
    }
  },
  '4.2.text.3': async ({ profile }) => {
    for (const query of ['limit=none', 'with_total=1', 'next_token=none', 'limit=%zz']) {
      const { status, body } = await profile.get(`/api/indexes?${query}`);
      expect([query, status, Object.keys(body)]).toEqual([query, 400, errorFields]);
    }
  },
  '4.3.text.1': async (setting) => {
    const { send } = setting.client();
    const id = await setting.profile.indexId('store_visitors');
    expect(await send(getIndexOperation(id))).toMatchObject({ id, name: 'store_visitors' });
  },
  '4.3.rows.id': async ({ profile }) => {
    for (const name of ['loyalty_members', 'newsletter_subscribers']) {
      const id = await profile.indexId(name);
      expect((await profile.get(`/api/indexes/${id}`)).body).toMatchObject({ id, name });
    }
    expect((await profile.get('/api/indexes/loyalty_members')).status).toBe(404);
  },
  '4.3.text.2': async ({ profile }) => {
    for (const index of (await profile.read('/api/indexes')).data) {
      const { status, body } = await profile.get(`/api/indexes/${index.id}`);
      expect([status, body]).toEqual([200, index]);
    }
  },
  '4.3.text.3': async (setting) => {
    const { status, body } = await setting.profile.get('/api/indexes/idx-none');
    expect([status, Object.keys(body)]).toEqual([404, errorFields]);
    expect(body.message).toMatch(/entity does not exist/);
    const error = await setting.client().failure(getIndexOperation('idx-none'));
    expect(error).toMatchObject({ code: 'not_found', requestId: expect.any(String) });
  },
  '4.4.text.1': async (setting) => {
    const { profile } = setting;
    for (const name of ['loyalty_members', 'store_visitors']) {
      const page = await profile.read(`${await setting.members(name)}?limit=3`);
      const id = await profile.indexId(name);
      expect(page.data.map(({ index_id }) => index_id)).toEqual([id, id, id]);
    }
  },
  '4.4.rows.filter[<attribute>].1': async (setting) => {
    const members = await setting.members();
    expect((await setting.profile.get(`${members}?filter[tier]=gold`)).status).toBe(200);
    for (const attribute of ['email', 'points', 'not_there', '']) {
      const { status, body } = await setting.profile.get(`${members}?filter[${attribute}]=1`);
      expect([status, body.status]).toEqual([400, 400]);
    }
    expect((await setting.profile.get(`${await setting.members('store_visitors')}?filter[tier]=gold`)).status).toBe(
      400,
    );
  },
  '4.4.rows.filter[<attribute>].2': async (setting) => {
    const members = await setting.members();
    const all = await setting.profile.records(`${members}?limit=200`);
    const tiers = new Set(all.map(({ attributes }) => String(attributes.tier)));
    expect(tiers.size).toBeGreaterThan(2);
    for (const tier of tiers) {
      const found = await setting.profile.records(`${members}?filter[tier]=${tier}`);
      expect(found).toEqual(all.filter(({ attributes }) => attributes.tier === tier));
    }
    expect(await setting.profile.records(`${members}?filter[tier]=gol`)).toEqual([]);
  },
  '4.4.rows.filter[<attribute>].3': async (setting) => {
    const members = await setting.members();
    const ids = async (query: string) => (await setting.profile.records(`${members}?${query}`)).map(({ id }) => id);
    const [gold, active] = [await ids('filter[tier]=gold'), await ids('filter[is_active]=true')];
    const both = await ids('filter[tier]=gold&filter[is_active]=true');
    expect(both).toEqual(gold.filter((id) => active.includes(id)));
    expect(both.length).toBeLessThan(gold.length);
    expect(both.length).toBeGreaterThan(0);
  },
  '4.4.rows.filter[<attribute>].4': async (setting) => {
    const service = await scriptedService(emptyPage);
    const filter = [
      ['tier', 'gold'],
      ['city', 'Köln & ]=+%'],
      ['a[b]', ''],
    ] as const;
    await testClient(serviceOptions(service.baseUrl)).send(profilesPageOperation({ indexId: 'i', filter }));
    const [request] = service.received;
    expect([...(request?.url.searchParams ?? [])]).toEqual(filter.map(([name, value]) => [`filter[${name}]`, value]));
    expect(filterParameters(filter)).toHaveLength(3);
    const indexId = await setting.profile.indexId('loyalty_members');
    const { data } = await setting.read(profilesPageOperation({ indexId, filter: [['city', 'Köln']] }), readProfiles);
    expect(new Set(data.map(({ attributes }) => (attributes as { city: string }).city))).toEqual(new Set(['Köln']));
  },
  '4.4.rows.limit': async (setting) => {
    const members = await setting.members();
    for (const limit of [1, 7, 200]) {
      expect((await setting.profile.read(`${members}?limit=${limit}`)).data).toHaveLength(limit);
    }
    for (const limit of ['0', 'x', '2.0']) {
      expect((await setting.profile.get(`${members}?limit=${limit}`)).status).toBe(400);
    }
  },
  '4.4.rows.next_token': async (setting) => {
    const members = await setting.members();
    for (const query of ['', '&filter[tier]=gold', '&filter[is_active]=true&filter[tier]=bronze']) {
      const pages = await setting.profile.pages(`${members}?limit=9${query}`);
      expect(pages.slice(0, -1).every(({ data }) => data.length === 9)).toBe(true);
      expect(pages.length).toBeGreaterThan(2);
      const whole = await setting.profile.read(`${members}?limit=1000${query}`);
      expect(pages.flatMap(({ data }) => data)).toEqual(whole.data);
    }
  },
  '4.4.rows.with_total': async (setting) => {
    const members = await setting.members();
    const count = (await setting.profile.records(`${members}?limit=200&filter[tier]=gold`)).length;
    const total = async (query: string) => (await setting.profile.read(`${members}?limit=1&${query}`)).total;
    expect(await total('with_total=true')).toBe(400);
    expect(await total('with_total=true&filter[tier]=gold')).toBe(count);
    expect(await total('with_total=false')).toBe(await total(''));
  },
  '4.4.text.2': async (setting) => {
    const { status, body } = await setting.profile.get(`${await setting.members()}?limit=1&with_total=true`);
    expect([status, Object.keys(body)]).toEqual([200, ['data', 'next_token', 'total']]);
    expect(Object.keys(body.data[0])).toEqual(['id', 'index_id', 'attributes']);
  },
  '4.4.text.3': async (setting) => {
    const members = await setting.members();
    for (const path of [`${members}?filter[none]=1`, `${members}?limit=x`, '/api/indexes/idx-none/profiles']) {
      const { status, body } = await setting.profile.get(path);
      expect(status).toBeGreaterThanOrEqual(400);
      expect([Object.keys(body), body.status]).toEqual([errorFields, status]);
    }
  },
  '4.5.text.1': async (setting) => {
    const served = operations.find(
      ({ method, path }) => `${method} ${path.replace(/\{[^}]*\}/g, '{}')}` === 'GET /api/indexes/{}/profiles/{}',
    );
    expect(served?.guard).toMatchObject({ group: 'profile', versions: ['2025-07-31'] });
    const [one] = (await setting.profile.read(`${await setting.members()}?limit=1`)).data;
    const read = await setting.client().send(getProfileOperation(one?.index_id ?? '', one?.id ?? ''));
    expect(read).toEqual(one);
    const missing = await setting.client().failure(getProfileOperation(one?.index_id ?? '', 'p-none'));
    expect(missing).toMatchObject({ code: 'not_found' });
  },
};

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';
import { type Profile, RealtimeCaller } from './realtime-caller.js';

let service: LocalService;
let caller: RealtimeCaller;
let known: Profile;
let other: Profile;
beforeAll(async () => {
  service = await startLocalService({ profiles: 2000 });
  caller = new RealtimeCaller(service);
  const [first, second] = (await caller.members('seg-gold')) as [string, string];
  known = await caller.profile(first);
  other = await caller.profile(second);
});
afterAll(() => service.close());

const path = '/prof/lookup/col-1/keychain';
const enriched = ['churn_risk', 'average_purchase', 'preferred_store', 'tags'];
const keysOf = ({ links }: Profile) =>
  Object.fromEntries(Object.entries(links).map(([name, [value]]) => [name, value as string]));
const query = (keys: Record<string, string>) => new URLSearchParams(keys).toString();

describe('a real-time profile (specification, section 2.3)', () => {
  it('has the published fields', () => {
    expect(Object.keys(known)).toEqual([
      'collection_id',
      'profile_id',
      'attributes',
      'created_at',
      'updated_at',
      'ticked_at',
      'links',
    ]);
    const { created_at: created, updated_at: updated, ticked_at: ticked } = known;
    for (const time of [created, updated, ticked]) expect(time).toBe(new Date(time).toISOString());
    expect(created <= updated && updated <= ticked).toBe(true);
    expect(Object.keys(known.links)).toEqual(['email', 'phone', 'loyalty_id']);
  });

  it('is one of the people of the indexes, by id, keys and attributes', async () => {
    const profileApi = new Caller(service);
    const index = await profileApi.indexId('loyalty_members');
    const { body } = await profileApi.get(`/api/indexes/${index}/profiles/${known.profile_id}`);
    const { email, phone, loyalty_id, first_name, city, tier, orders, ltv } = body.attributes;
    expect({ email, phone, loyalty_id }).toEqual(keysOf(known));
    expect(known.attributes).toMatchObject({ first_name, city, tier, purchases: orders, total_spent: ltv });
  });

  it('has enriched attributes only on request', async () => {
    const full = await caller.profile(known.profile_id, 'col-1', '?enrich=true');
    expect(Object.keys(full.attributes)).toEqual([...Object.keys(known.attributes), ...enriched]);
    expect(await caller.profile(known.profile_id, 'col-1', '?enrich=false')).toEqual(known);
    expect((await caller.get(`/prof/profiles/col-1/${known.profile_id}?enrich=yes`)).status).toBe(400);
  });

  it('is 404 for an unknown id, a person outside the collection, and an unknown collection', async () => {
    const profileApi = new Caller(service);
    const people = await profileApi.records(
      `/api/indexes/${await profileApi.indexId('loyalty_members')}/profiles?limit=1000`,
    );
    const statuses = await Promise.all(
      people.slice(0, 100).map(async ({ id }) => (await caller.get(`/prof/profiles/col-1/${id}`)).status),
    );
    expect(statuses.filter((status) => status === 200).length).toBe(10);
    expect(statuses.filter((status) => status === 404).length).toBe(90);
    for (const id of ['p-1', 'pe-00000000', 'x', '%00']) {
      expect((await caller.get(`/prof/profiles/col-1/${id}`)).status).toBe(404);
    }
    expect((await caller.get(`/prof/profiles/col-9/${known.profile_id}`)).status).toBe(404);
  });
});

describe('lookup by keys (specification, sections 4.6 and 4.7)', () => {
  it('finds a profile by any of its keys and by all together, with POST and GET', async () => {
    const all = keysOf(known);
    for (const keys of [all, ...Object.entries(all).map(([name, value]) => ({ [name]: value }))]) {
      const posted = await caller.post(path, { keys });
      const got = await caller.get(`${path}?${query(keys)}`);
      for (const { status, body, headers } of [posted, got]) {
        expect([status, body]).toEqual([200, known]);
        expect(headers.get('location')).toBe(`${service.url}/prof/profiles/col-1/${known.profile_id}`);
      }
    }
  });

  it('gives the URL of the profile, which can be read', async () => {
    const { headers } = await caller.post(path, { keys: keysOf(known) });
    const location = new URL(headers.get('location') as string);
    expect((await caller.get(location.pathname)).body).toEqual(known);
  });

  it('gives enriched attributes on request', async () => {
    const posted = await caller.post(path, { keys: keysOf(known), enrich: true });
    const got = await caller.get(`${path}?${query(keysOf(known))}&_enrich=true`);
    for (const { body } of [posted, got])
      expect(Object.keys(body.attributes)).toEqual(expect.arrayContaining(enriched));
    const plain = await caller.get(`${path}?${query(keysOf(known))}&_enrich=false`);
    expect(plain.body).toEqual(known);
  });

  it.each([
    ['nothing', ''],
    ['no JSON', '{'],
    ['no keys', '{}'],
    ['empty keys', '{"keys":{}}'],
    ['a list', '{"keys":["a"]}'],
    ['a key of null', '{"keys":{"email":null}}'],
    ['a strange enrich', '{"keys":{"email":"a"},"enrich":"yes"}'],
  ])('is 400 for %s', async (_, body) => {
    expect((await caller.post(path, body)).status).toBe(400);
  });

  it('is 413 for more than 64 KB, and the connection stays usable', async () => {
    const large = JSON.stringify({ keys: { email: 'x'.repeat(300_000) } });
    for (let again = 0; again < 3; again += 1) {
      expect((await caller.post(path, large)).status).toBe(413);
      expect((await caller.post(path, { keys: keysOf(known) })).status).toBe(200);
    }
  });

  it('is 400 without keys in the query', async () => {
    expect((await caller.get(path)).status).toBe(400);
    expect((await caller.get(`${path}?_enrich=true`)).status).toBe(400);
  });

  it('is 404 for a key that no profile has, and no response repeats its value', async () => {
    const absent = [
      { email: 'absent@example.org' },
      { phone: '+19999999999' },
      { loyalty_id: 'LM4294967295' },
      { shoe: 'size 43' },
    ];
    for (const keys of [...absent, { email: known.links.phone?.[0] as string }]) {
      const [value] = Object.values(keys) as [string];
      for (const response of [await caller.post(path, { keys }), await caller.get(`${path}?${query(keys)}`)]) {
        expect(response.status).toBe(404);
        expect(response.text).not.toContain(value);
      }
    }
  });

  it('is 404 if keys belong to different profiles, or one of them to none', async () => {
    const { email } = keysOf(known) as { email: string };
    for (const phone of [keysOf(other).phone as string, '+10']) {
      expect((await caller.post(path, { keys: { email, phone } })).status).toBe(404);
      expect((await caller.get(`${path}?${query({ email, phone })}`)).status).toBe(404);
    }
  });

  it('is 404 in an unknown collection, and 405 to another method', async () => {
    expect((await caller.post('/prof/lookup/col-9/keychain', { keys: keysOf(known) })).status).toBe(404);
    const { status, headers } = await caller.send('PUT', path);
    expect(status).toBe(405);
    expect(headers.get('allow')?.split(', ').sort()).toEqual(['GET', 'POST']);
  });

  it('needs a plus sign in the query to be encoded', async () => {
    const { phone } = keysOf(known) as { phone: string };
    expect((await caller.get(`${path}?phone=${phone}`)).status).toBe(404);
    expect((await caller.get(`${path}?phone=${encodeURIComponent(phone)}`)).status).toBe(200);
  });
});

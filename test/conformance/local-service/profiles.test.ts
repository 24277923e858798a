import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller, type Envelope } from './caller.js';

let service: LocalService;
let caller: Caller;
let members: string;
let all: Envelope['data'];
beforeAll(async () => {
  service = await startLocalService({ profiles: 3000 });
  caller = new Caller(service);
  // A few days, so that some profiles are updated, inserted or deleted.
  await caller.control('change', { days: 3, updated: 0.2, inserted: 0.05, deleted: 0.05 });
  members = `/api/indexes/${await caller.indexId('loyalty_members')}/profiles`;
  all = await caller.records(`${members}?limit=500`);
});
afterAll(() => service.close());

const filter = (attribute: string, value: string) => `filter[${attribute}]=${encodeURIComponent(value)}`;

describe('GET /indexes/{id}/profiles (specification, sections 2.2, 2.5 and 4.4)', () => {
  it('returns id, index_id and attributes of each profile', () => {
    for (const record of all) {
      expect(Object.keys(record)).toEqual(['id', 'index_id', 'attributes']);
      expect(members).toContain(record.index_id);
      expect(Object.keys(record.attributes).length).toBeLessThanOrEqual(30);
    }
  });

  it.each([1, 7, 25, 100, 1000])('gives the same profiles in the same order with limit=%i', async (limit) => {
    const most = limit === 1 ? 40 : 10_000;
    const pages = await caller.pages(`${members}?limit=${limit}`, most);
    const records = pages.flatMap(({ data }) => data);
    expect(records).toEqual(all.slice(0, records.length));
    if (limit > 1) expect(records.length).toBe(all.length);
    expect(pages.slice(0, -1).every(({ data }) => data.length === limit)).toBe(true);
  });

  it('has 25 profiles in a page by default', async () => {
    expect((await caller.read(members)).data.length).toBe(25);
  });

  it('gives no id twice', () => {
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
  });

  it.each([
    ['country', 'DE'],
    ['tier', 'gold'],
    ['city', 'Köln'],
    ['city', '臺南市'],
    ['language', 'ar'],
    ['is_active', 'false'],
  ])('filter[%s]=%s returns the profiles that a full scan finds', async (attribute, value) => {
    const found = await caller.records(`${members}?limit=50&${filter(attribute, value)}`);
    expect(found.length).toBeGreaterThan(0);
    expect(found).toEqual(all.filter(({ attributes }) => String(attributes[attribute]) === value));
  });

  it('filters strings as they are written: 02134 is not 2134', async () => {
    const zip = all.map(({ attributes }) => String(attributes.zip)).find((text) => text.startsWith('021')) as string;
    const found = await caller.records(`${members}?${filter('zip', zip)}`);
    expect(found).toEqual(all.filter(({ attributes }) => attributes.zip === zip));
    expect((await caller.read(`${members}?${filter('zip', zip.slice(1))}`)).data).toEqual([]);
  });

  it('is narrowed by each further filter', async () => {
    const query = `${filter('country', 'JP')}&${filter('tier', 'bronze')}&${filter('is_active', 'true')}`;
    const found = await caller.records(`${members}?limit=3&${query}`);
    const { records } = {
      records: all.filter(({ attributes: a }) => a.country === 'JP' && a.tier === 'bronze' && a.is_active === 'true'),
    };
    expect(records.length).toBeGreaterThan(3);
    expect(found).toEqual(records);
  });

  it('is empty if filters contradict each other, or match no profile', async () => {
    for (const query of ['filter[country]=US&filter[country]=DE', 'filter[country]=us', 'filter[country]=']) {
      expect(await caller.read(`${members}?${query}&with_total=true`)).toEqual({ data: [], total: 0 });
    }
  });

  it('takes filters with brackets percent-encoded or not, in any order, for the same list', async () => {
    const plain = await caller.read(`${members}?filter[country]=DE&filter[tier]=gold&limit=2`);
    const encoded = await caller.read(`${members}?limit=2&filter%5Btier%5D=gold&filter%5Bcountry%5D=DE`);
    expect(encoded).toEqual(plain);
  });

  it.each(['nickname', 'points'])('returns 400 to a filter on %s, and names the attribute', async (attribute) => {
    const { status, body } = await caller.get(`${members}?filter[${attribute}]=1`);
    expect(status).toBe(400);
    expect(body.message).toContain(attribute);
  });

  it.each(['filter=DE', 'filter[]=DE', 'filter[country=DE', 'limit=0', 'limit=1001', 'limit=x', 'a=%zz'])(
    'returns 400 to %s',
    async (query) => {
      expect((await caller.get(`${members}?${query}`)).status).toBe(400);
    },
  );

  it('has the total of the filtered list only with with_total=true', async () => {
    expect((await caller.read(`${members}?with_total=true&limit=1`)).total).toBe(all.length);
    const spaniards = all.filter(({ attributes }) => attributes.country === 'ES').length;
    expect((await caller.read(`${members}?with_total=true&filter[country]=ES`)).total).toBe(spaniards);
    expect(await caller.read(`${members}?limit=1`)).not.toHaveProperty('total');
  });

  it('returns 404 for an unknown index', async () => {
    expect((await caller.get('/api/indexes/idx-none/profiles')).status).toBe(404);
  });
});

describe('page tokens (specification, section 4.1)', () => {
  it('are opaque, and refused if changed', async () => {
    const { next_token: token } = await caller.read(`${members}?limit=5`);
    const text = token as string;
    for (const at of [0, 5, 12, text.length - 1]) {
      const changed = text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
      expect((await caller.get(`${members}?next_token=${changed}`)).status).toBe(400);
    }
    for (const wrong of ['', 'null', 'x', '0', text.slice(1), `${text}A`, `${text}%20`]) {
      expect((await caller.get(`${members}?next_token=${wrong}`)).status).toBe(400);
    }
  });

  it('belong to one index and its filters', async () => {
    const { next_token: token } = await caller.read(`${members}?limit=5&filter[country]=DE`);
    expect((await caller.get(`${members}?limit=5&filter[country]=DE&next_token=${token}`)).status).toBe(200);
    expect((await caller.get(`${members}?limit=9&filter[country]=DE&next_token=${token}`)).status).toBe(200);
    expect((await caller.get(`${members}?limit=5&next_token=${token}`)).status).toBe(400);
    expect((await caller.get(`${members}?limit=5&filter[country]=FR&next_token=${token}`)).status).toBe(400);
    const other = await caller.indexId('store_visitors');
    expect((await caller.get(`/api/indexes/${other}/profiles?next_token=${token}&filter[country]=DE`)).status).toBe(
      400,
    );
    expect((await caller.get(`/api/indexes?next_token=${token}`)).status).toBe(400);
  });

  it.each([
    ['absent', {}],
    ['empty', { next_token: '' }],
    ['null', { next_token: null }],
  ] as const)('end a list in the form %s if the service is started so', async (endForm, expected) => {
    const own = await startLocalService({ profiles: 3, endForm });
    try {
      const other = new Caller(own);
      const { data: _, ...rest } = await other.read(`/api/indexes/${await other.indexId('loyalty_members')}/profiles`);
      expect(rest).toEqual(expected);
    } finally {
      await own.close();
    }
  });
});

describe('GET /indexes/{id}/profiles/{id} (specification, section 4.5)', () => {
  it('returns each profile byte for byte as the list has it', async () => {
    const list = (await caller.get(`${members}?limit=200`)).text;
    for (const { id } of all.slice(0, 200)) {
      const { status, text } = await caller.get(`${members}/${id}`);
      expect(status).toBe(200);
      expect(list).toContain(text);
    }
  });

  it('returns 404 for unknown and deleted profiles, and for profiles of other indexes', async () => {
    for (const id of ['p-00000000', 'unknown', 'P-1', '%00', '%zz']) {
      expect((await caller.get(`${members}/${id}`)).status).toBe(404);
    }
    const subscribers = `/api/indexes/${await caller.indexId('newsletter_subscribers')}/profiles`;
    const held = new Set((await caller.records(`${subscribers}?limit=1000`)).map(({ id }) => id));
    for (const { id } of all.slice(0, 100)) {
      expect((await caller.get(`${subscribers}/${id}`)).status).toBe(held.has(id) ? 200 : 404);
    }
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';

let service: LocalService;
let caller: Caller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 200 });
  caller = new Caller(service);
});
afterAll(() => service.close());

const timestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

describe('GET /indexes (specification, sections 2.1 and 4.2)', () => {
  it('returns indexes with id, name, description and both times', async () => {
    const { data } = (await caller.get('/api/indexes')).body;
    expect(data.map(({ name }: { name: string }) => name)).toEqual([
      'loyalty_members',
      'newsletter_subscribers',
      'store_visitors',
    ]);
    for (const index of data) {
      expect(Object.keys(index).sort()).toEqual(['created_at', 'description', 'id', 'name', 'updated_at']);
      expect(index.created_at).toMatch(timestamp);
      expect(index.updated_at).toMatch(timestamp);
    }
  });

  it('has 25 indexes in a page by default', async () => {
    const own = await startLocalService({ profiles: 1 });
    try {
      const other = new Caller(own);
      for (let n = 0; n < 30; n += 1) await other.control('profiles', { index: `made_${n}`, records: [] });
      const pages = await other.pages('/api/indexes');
      expect(pages.map(({ data }) => data.length)).toEqual([25, 8]);
      expect(new Set(pages.flatMap(({ data }) => data.map(({ id }) => id))).size).toBe(33);
    } finally {
      await own.close();
    }
  });

  it('is paged by limit and next_token, and leaves the token out of the last page', async () => {
    const pages = await caller.pages('/api/indexes?limit=2');
    expect(pages.map(({ data }) => data.length)).toEqual([2, 1]);
    expect(pages[1]).not.toHaveProperty('next_token');
  });

  it('has the total only with with_total=true', async () => {
    expect((await caller.read('/api/indexes?with_total=true')).total).toBe(3);
    expect(await caller.read('/api/indexes?with_total=false')).not.toHaveProperty('total');
    expect(await caller.read('/api/indexes')).not.toHaveProperty('total');
  });

  it.each([
    'limit=0',
    'limit=-1',
    'limit=1.5',
    'limit=ten',
    'limit=',
    'limit=1001',
    'limit=1&limit=2',
    'with_total=yes',
  ])('refuses %s with 400', async (query) => {
    const { status, body } = await caller.get(`/api/indexes?${query}`);
    expect(status).toBe(400);
    expect(body.message).toMatch(/limit|with_total/);
  });

  it('ignores unknown parameters', async () => {
    expect((await caller.get('/api/indexes?view=all')).status).toBe(200);
  });
});

describe('GET /indexes/{id} (specification, section 4.3)', () => {
  it('returns the same index as the list', async () => {
    const { data } = (await caller.get('/api/indexes')).body;
    for (const index of data) expect((await caller.get(`/api/indexes/${index.id}`)).body).toEqual(index);
  });

  it('answers 404 for an id that no index has: the entity does not exist', async () => {
    const { status, body } = await caller.get('/api/indexes/idx-0000000');
    expect(status).toBe(404);
    expect(body.message).toContain('does not exist');
  });
});

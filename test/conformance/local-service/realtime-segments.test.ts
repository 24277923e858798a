import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { RealtimeCaller } from './realtime-caller.js';

let service: LocalService;
let caller: RealtimeCaller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 20_000 });
  caller = new RealtimeCaller(service);
});
afterAll(() => service.close());
afterEach(() => caller.clearFaults());

const members = (segment: string) => `/prof/segments/${segment}/profiles`;
const all = ['seg-vip', 'seg-gold', 'seg-lapsed', 'seg-regular-guest'];

describe('GET /segments/{segment-id}/profiles (specification, section 4.10)', () => {
  it.each(all)('lists all of %s in one page with a total, unless the request has a limit', async (segment) => {
    const whole = await caller.read(members(segment));
    expect(Object.keys(whole)).toEqual(['data', 'total']);
    expect(whole.data.length).toBe(whole.total);
    expect(await caller.read(`${members(segment)}?with_total=false`)).toEqual(whole);
    expect(await caller.read(`${members(segment)}?limit=1`)).toMatchObject({ data: [{}], total: whole.total });
  });

  it.each(all)('at another deployment lists %s in pages, each with a total', async (segment) => {
    const whole = await caller.read(members(segment));
    await caller.control('faults', { kind: 'members_paged' });
    expect(whole.data.every((record) => Object.keys(record).join() === 'profile_id')).toBe(true);
    const listed = await caller.members(segment, 7);
    expect(listed).toEqual(await caller.members(segment));
    expect(new Set(listed).size).toBe(whole.total);
    expect(whole.total).toBeGreaterThan(0);
    expect((await caller.read(members(segment))).data.length).toBe(Math.min(25, whole.total as number));
    await caller.clearFaults();
    await caller.control('faults', { kind: 'members_paged', total: false });
    expect(await caller.read(members(segment))).not.toHaveProperty('total');
    expect((await caller.read(`${members(segment)}?with_total=true`)).total).toBe(whole.total);
  });

  it('gives the vips of about three in a hundred profiles', async () => {
    const share = (await caller.members('seg-vip')).length / (await caller.total());
    expect(share).toBeGreaterThan(0.02);
    expect(share).toBeLessThan(0.04);
  });

  it('alone takes a limit of up to a million', async () => {
    expect((await caller.get(`${members('seg-vip')}?limit=1000001`)).status).toBe(400);
    const [id] = await caller.members('seg-vip');
    expect((await caller.get(`/prof/profiles/col-1/${id}/segments?limit=1001`)).status).toBe(400);
  });

  it('is 400 for wrong parameters and tokens of another list, 404 for an unknown segment', async () => {
    for (const query of ['limit=0', 'next_token=', 'next_token=x', 'with_total=1']) {
      expect((await caller.get(`${members('seg-vip')}?${query}`)).status).toBe(400);
    }
    const { next_token: token } = await caller.read(`${members('seg-gold')}?limit=1`);
    expect((await caller.get(`${members('seg-vip')}?next_token=${token}`)).status).toBe(400);
    expect((await caller.get(members('seg-none'))).status).toBe(404);
    expect((await caller.send('POST', members('seg-vip'))).headers.get('allow')).toBe('GET');
  });

  it('with the fault ignored_token always gives the first page, whatever the token', async () => {
    await caller.control('faults', { kind: 'ignored_token' });
    const first = await caller.read(`${members('seg-vip')}?limit=20&with_total=true`);
    expect(first.data.length).toBe(20);
    expect(first.next_token).toBeTruthy();
    for (const token of [first.next_token, 'anything']) {
      expect(await caller.read(`${members('seg-vip')}?limit=20&with_total=true&next_token=${token}`)).toEqual(first);
    }
    const whole = await caller.read(`${members('seg-vip')}?limit=1000000&with_total=true`);
    expect(whole.data.length).toBe(whole.total);
    expect(whole.next_token).toBeTruthy();
  });

  it('is the only list that this fault changes', async () => {
    await caller.control('faults', { kind: 'ignored_token' });
    const indexes = await caller.pages('/api/indexes?limit=1&api_version=2025-07-31', 10);
    expect(indexes.length).toBe(3);
  });

  it('takes the faults of pages like every list', async () => {
    await caller.control('faults', { kind: 'duplicate', count: 1, match: 'seg-gold' });
    const listed = await caller.members('seg-gold', 50);
    expect(listed[50]).toBe(listed[49]);
    expect(new Set(listed).size).toBe(listed.length - 1);
  });
});

describe('GET /profiles/{collection-id}/{profile-id}/segments (specification, section 4.8)', () => {
  it('agrees with the lists of members', async () => {
    const lists = await Promise.all(all.slice(0, 3).map(async (id) => [id, await caller.members(id)] as const));
    const ids = [...new Set(lists.flatMap(([, listed]) => listed.slice(0, 10)))];
    for (const id of ids) {
      const expected = lists.filter(([, listed]) => listed.includes(id)).map(([segment]) => segment);
      expect(await caller.segmentsOf(id)).toEqual(expected);
    }
  });

  it('gives id and name, in pages, always with the total', async () => {
    const lapsed = new Set(await caller.members('seg-lapsed'));
    const id = (await caller.members('seg-gold')).find((one) => lapsed.has(one));
    const path = `/prof/profiles/col-1/${id}/segments`;
    const pages: unknown[] = await caller.pages(`${path}?limit=1`);
    const whole = await caller.get(path);
    expect(pages.map((page) => (page as { total: number }).total)).toEqual(pages.map(() => whole.body.data.length));
    expect(pages.flatMap((page) => (page as { data: object[] }).data)).toEqual(whole.body.data);
    expect(whole.body.data).toContainEqual({ segment_id: 'seg-gold', segment_name: 'Gold tier' });
  });

  it('is 404 for an unknown profile and an unknown collection', async () => {
    const [id] = await caller.members('seg-vip');
    expect((await caller.get('/prof/profiles/col-1/p-none/segments')).status).toBe(404);
    expect((await caller.get(`/prof/profiles/col-9/${id}/segments`)).status).toBe(404);
  });
});

describe('events', () => {
  it('move profiles into segments and out of them', async () => {
    const before = await caller.members('seg-gold');
    const outside = (await caller.members('seg-lapsed')).find((id) => !before.includes(id)) as string;
    const inside = before[3] as string;
    await caller.event({ profile_id: outside, attributes: { tier: 'gold' } });
    await caller.event({ profile_id: inside, attributes: { tier: 'bronze' } });
    const after = await caller.members('seg-gold');
    expect(new Set(after)).toEqual(new Set([...before.filter((id) => id !== inside), outside]));
    expect((await caller.read(`${members('seg-gold')}?with_total=true`)).total).toBe(before.length);
    expect(await caller.segmentsOf(outside)).toContain('seg-gold');
    expect(await caller.segmentsOf(inside)).not.toContain('seg-gold');
  });

  it('make a profile a vip after enough purchases, even a profile that an event has made', async () => {
    const keys = { email: 'rich@example.org' };
    await caller.event({ event_type: 'purchase', keys, amount: 8199 });
    const { profile_id: id } = await caller.lookup(keys);
    expect(await caller.segmentsOf(id)).toEqual([]);
    await caller.event({ event_type: 'purchase', keys, amount: 1 });
    expect(await caller.segmentsOf(id)).toEqual(['seg-vip']);
    expect((await caller.members('seg-vip')).at(-1)).toBe(id);
  });
});

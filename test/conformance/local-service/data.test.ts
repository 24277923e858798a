import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller, type Envelope } from './caller.js';

const started: LocalService[] = [];
async function start(options: Parameters<typeof startLocalService>[0]): Promise<Caller> {
  const service = await startLocalService(options);
  started.push(service);
  return new Caller(service);
}
afterAll(() => Promise.all(started.map((service) => service.close())));

const names = ['loyalty_members', 'newsletter_subscribers', 'store_visitors'];

async function everything(caller: Caller, name: string): Promise<Map<string, string>> {
  const path = `/api/indexes/${await caller.indexId(name)}/profiles?limit=1000`;
  return new Map((await caller.records(path)).map((record) => [record.id, JSON.stringify(record)]));
}

describe('the generated profiles', () => {
  let caller: Caller;
  let members: Envelope['data'];
  beforeAll(async () => {
    caller = await start({ profiles: 8000 });
    members = await caller.records(`/api/indexes/${await caller.indexId('loyalty_members')}/profiles?limit=1000`);
  });

  it('are as many as requested; the other indexes have a quarter and a tenth of them', async () => {
    expect(members.length).toBe(8000);
    expect((await everything(caller, 'newsletter_subscribers')).size).toBe(2000);
    expect((await everything(caller, 'store_visitors')).size).toBe(800);
  });

  it('have about 850 bytes and at most 30 attributes', () => {
    const bytes = members.reduce((sum, record) => sum + Buffer.byteLength(JSON.stringify(record)), 0) / members.length;
    expect(bytes).toBeGreaterThan(750);
    expect(bytes).toBeLessThan(950);
    expect(new Set(members.flatMap(({ attributes }) => Object.keys(attributes))).size).toBe(29);
  });

  it('are spread over 64 countries, and no country has much more than its share', () => {
    const counts = new Map<unknown, number>();
    for (const { attributes } of members) counts.set(attributes.country, (counts.get(attributes.country) ?? 0) + 1);
    expect(counts.size).toBe(64);
    for (const count of counts.values()) {
      expect(count).toBeGreaterThan(75);
      expect(count).toBeLessThan(185);
    }
  });

  it('have text alone: numbers, times, lists and objects as text, missing values, leading zeros, other scripts', () => {
    const values = (name: string) => members.map(({ attributes }) => attributes[name]);
    expect(
      new Set(members.flatMap(({ attributes }) => Object.values(attributes).map((value) => typeof value))),
    ).toEqual(new Set(['string']));
    expect(values('gender')).toContain(undefined);
    expect(values('zip').some((zip) => /^0\d+$/.test(String(zip)))).toBe(true);
    expect(values('ltv').some((ltv) => /^\d+\.\d{1,2}$/.test(String(ltv)))).toBe(true);
    expect(values('orders').every((orders) => /^\d+$/.test(String(orders)))).toBe(true);
    expect(values('is_active')).toContain('true');
    expect(
      values('tags')
        .map((tags) => JSON.parse(String(tags)))
        .every(Array.isArray),
    ).toBe(true);
    expect(JSON.parse(String(values('consents')[0]))).toHaveProperty('email.granted');
    expect(values('first_name')).toContain('美咲');
    expect(new Set(values('email')).size).toBe(members.length);
  });

  it('are the same people in each index', async () => {
    const visitors = await caller.records(`/api/indexes/${await caller.indexId('store_visitors')}/profiles?limit=1000`);
    const byId = new Map(members.map((record) => [record.id, record.attributes]));
    for (const { id, attributes } of visitors) {
      for (const name of ['email', 'country', 'tier', 'zip']) expect(byId.get(id)?.[name]).toBe(attributes[name]);
    }
  });

  it('depend on the seed, and so do ids and credentials', async () => {
    const same = await start({ profiles: 8000 });
    const other = await start({ profiles: 8000, seed: 2 });
    const ours = await everything(caller, 'loyalty_members');
    expect(await everything(same, 'loyalty_members')).toEqual(ours);
    expect([...(await everything(other, 'loyalty_members')).keys()].some((id) => ours.has(id))).toBe(false);
    const credentials = ({ service: { clientId, clientSecret } }: Caller) => [clientId, clientSecret];
    expect(credentials(same)).toEqual(credentials(caller));
    expect(credentials(other)).not.toEqual(credentials(caller));
  });
});

function compared(before: Map<string, string>, after: Map<string, string>) {
  const inserted = [...after.keys()].filter((id) => !before.has(id)).length;
  const deleted = [...before.keys()].filter((id) => !after.has(id)).length;
  const updated = [...after].filter(([id, text]) => before.has(id) && before.get(id) !== text).length;
  return { inserted, updated, deleted, total: after.size };
}

describe('days that change the data', () => {
  it.each([
    [1, {}],
    [10, {}],
    [3, { updated: 1, inserted: 0.1, deleted: 0.2 }],
    [1, { updated: 0, inserted: 0, deleted: 0.5 }],
    [1, { updated: 0, inserted: 0.5, deleted: 0 }],
  ])('%i days with %o change exactly as many profiles as the response says, in every index', async (days, shares) => {
    const caller = await start({ profiles: 3000, seed: 7 });
    await caller.control('change', { days: 2 });
    const before = await Promise.all(names.map((name) => everything(caller, name)));
    const { body } = await caller.control('change', { days, ...shares });
    expect(body.days).toBe(2 + days);
    for (const [at, name] of names.entries()) {
      const change = compared(before[at] as Map<string, string>, await everything(caller, name));
      expect({ name, ...change }).toEqual({ name, ...body.indexes[name] });
    }
  });

  it('a usual day updates 1 %, inserts 0.2 % and deletes 0.1 %', async () => {
    const caller = await start({ profiles: 500_000 });
    const { inserted, updated, deleted } = (await caller.control('change', { days: 1 })).body.indexes.loyalty_members;
    expect(inserted).toBe(1000);
    expect(updated / 500_000).toBeCloseTo(0.01, 3);
    expect(deleted / 500_000).toBeCloseTo(0.001, 3);
  });

  it('moves some profiles to another country and another tier', async () => {
    const caller = await start({ profiles: 4000 });
    const path = `/api/indexes/${await caller.indexId('loyalty_members')}/profiles?limit=1000`;
    const before = new Map((await caller.records(path)).map(({ id, attributes }) => [id, attributes]));
    const { merges, splits } = (await caller.control('change', { updated: 1 })).body;
    const after = await caller.records(path);
    const moved = (name: string) =>
      after.filter(({ id, attributes }) => before.has(id) && before.get(id)?.[name] !== attributes[name]).length;
    expect(moved('country')).toBeGreaterThan(100);
    expect(moved('country')).toBeLessThan(500);
    expect(moved('tier')).toBeGreaterThan(300);
    // Only a merge or a split moves an e-mail.
    expect(moved('email')).toBe(merges.length + splits.length);
    expect(moved('updated_at')).toBeGreaterThan(3900);
  });

  it('have the same result in two services, in however many steps they pass', async () => {
    const [one, two] = [await start({ profiles: 3000 }), await start({ profiles: 3000 })];
    await one.control('change', { days: 3 });
    for (let day = 0; day < 3; day += 1) await two.control('change', {});
    expect(await everything(two, 'loyalty_members')).toEqual(await everything(one, 'loyalty_members'));
  });

  it('also change the later pages of a list that a client has begun to read', async () => {
    const caller = await start({ profiles: 1000 });
    const path = `/api/indexes/${await caller.indexId('loyalty_members')}/profiles?limit=100`;
    const { next_token: token } = await caller.read(path);
    await caller.control('change', { updated: 0, inserted: 0.1, deleted: 0.5 });
    const rest = await caller.records(`${path}&next_token=${token}`.replace('?limit=100&', '?limit=1000&'));
    const now = await everything(caller, 'loyalty_members');
    expect(rest.every(({ id }) => now.has(id))).toBe(true);
    expect(rest.length).toBeLessThan(700);
  });
});

import { afterEach, describe, expect, it } from 'vitest';
import { permissions } from '../../../src/local-service/keys/api-key.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';
import { type Profile, RealtimeCaller } from './realtime-caller.js';

const started: LocalService[] = [];
async function start(options: Parameters<typeof startLocalService>[0]): Promise<RealtimeCaller> {
  // Readings ask for hundreds of profiles in a second.
  const service = await startLocalService({ rateLimits: { realtime: 0 }, ...options });
  started.push(service);
  return new RealtimeCaller(service);
}
afterEach(() => Promise.all(started.splice(0).map((service) => service.close())));

const segments = { 'col-1': ['seg-vip', 'seg-gold', 'seg-lapsed'], 'col-2': ['seg-regular-guest'] };
type Collection = keyof typeof segments;

/** Reads every profile of a collection, and the members of its segments. */
async function reading(caller: RealtimeCaller, collection: Collection, ids: ReadonlySet<string>) {
  const profiles = new Map<string, Profile>();
  for (const id of ids) {
    const { status, body } = await caller.get(`/prof/profiles/${collection}/${id}`);
    if (status === 200) profiles.set(id, body);
  }
  const members = new Map<string, Set<string>>();
  for (const segment of segments[collection]) members.set(segment, new Set(await caller.members(segment)));
  return { profiles, members };
}

/** The ids of all people of the tenant, past and present. */
async function people(caller: RealtimeCaller): Promise<string[]> {
  const profileApi = new Caller(caller.service);
  const path = `/api/indexes/${await profileApi.indexId('loyalty_members')}/profiles?limit=1000`;
  return (await profileApi.records(path)).map(({ id }) => id);
}

describe('POST /_control/change', () => {
  it('reports for collections and segments exactly what two full readings find, events included', async () => {
    const caller = await start({ profiles: 1000 });
    const ids = new Set(await people(caller));
    const touched = (await caller.members('seg-gold')).slice(0, 6);
    for (const id of touched) await caller.event({ profile_id: id, attributes: { tier: 'gold', is_active: true } });
    await caller.event({ keys: { email: 'own@example.org' }, attributes: { tier: 'gold' } });
    ids.add((await caller.lookup({ email: 'own@example.org' })).profile_id);
    const before = { 'col-1': await reading(caller, 'col-1', ids), 'col-2': await reading(caller, 'col-2', ids) };
    const { realtime } = (await caller.control('change', { days: 3, updated: 0.2, inserted: 0.1, deleted: 0.1 })).body;
    for (const id of await people(caller)) ids.add(id);
    for (const collection of ['col-1', 'col-2'] as const) {
      const after = await reading(caller, collection, ids);
      const [old, now] = [before[collection], after];
      const kept = [...now.profiles].filter(([id]) => old.profiles.has(id));
      expect(realtime.collections[collection]).toEqual({
        inserted: now.profiles.size - kept.length,
        updated: kept.filter(([id, one]) => JSON.stringify(one) !== JSON.stringify(old.profiles.get(id))).length,
        deleted: old.profiles.size - kept.length,
        total: now.profiles.size,
      });
      expect(await caller.total(collection)).toBe(now.profiles.size);
      for (const segment of segments[collection]) {
        const [was, is] = [old.members.get(segment) as Set<string>, now.members.get(segment) as Set<string>];
        expect(realtime.segments[segment]).toEqual({
          entered: [...is].filter((id) => !was.has(id)).length,
          left: [...was].filter((id) => !is.has(id)).length,
          total: is.size,
        });
      }
    }
    const moved = realtime.collections['col-1'];
    expect([moved.inserted, moved.updated, moved.deleted].every((count) => count > 0)).toBe(true);
    expect(realtime.segments['seg-gold'].entered).toBeGreaterThan(0);
    expect(realtime.segments['seg-gold'].left).toBeGreaterThan(0);
  });

  it('keeps the attributes that events have set, and moves the times of updated profiles', async () => {
    const caller = await start({ profiles: 1000 });
    const [id] = (await caller.members('seg-vip')) as [string];
    await caller.event({ event_type: 'purchase', profile_id: id, amount: 1e6, attributes: { nick: 'A' } });
    const before = await caller.profile(id);
    await caller.control('change', { updated: 1, deleted: 0 });
    const after = await caller.profile(id);
    expect(after.attributes).toMatchObject({ nick: 'A' });
    expect(Number(after.attributes.total_spent)).toBeGreaterThanOrEqual(1e6);
    expect(after.updated_at > before.updated_at && after.ticked_at > before.ticked_at).toBe(true);
    await caller.event({ profile_id: id });
    expect((await caller.profile(id)).updated_at > after.updated_at).toBe(true);
  });

  it('deletes profiles for good: their keys are free, and an event with them makes another profile', async () => {
    const caller = await start({ profiles: 100 });
    const [id] = (await caller.members('seg-gold')) as [string];
    const { links } = await caller.profile(id);
    const keys = { email: links.email?.[0] as string, cookie: 'c' };
    await caller.event({ keys, attributes: { nick: 'A' } });
    await caller.control('change', { deleted: 1, inserted: 0 });
    expect(await caller.total()).toBe(0);
    await expect(caller.lookup(keys)).rejects.toThrow('404');
    await caller.event({ keys });
    const made = await caller.lookup(keys);
    expect(made.profile_id).not.toBe(id);
    expect(made.attributes).toEqual({});
  });
});

describe('POST /_control/realtime', () => {
  const paths = [
    '/prof/lookup/col-1/keychain?email=a',
    '/prof/lookup/col-1/keychain',
    '/prof/profiles/col-1/p-1',
    '/prof/profiles/col-1/p-1/segments',
    '/prof/segments/seg-vip/profiles',
    '/prof/collections/col-1/stats',
    '/prof/collections/col-1/history?scale=wrong',
  ];

  it('disables the features of a tenant, so that every request is 404 with the reason, and enables them', async () => {
    const caller = await start({ profiles: 100 });
    await caller.control('realtime', { tenant: 'acme', enabled: false });
    const responses = [
      ...(await Promise.all(paths.map((path) => caller.get(path)))),
      await caller.post('/prof/lookup/col-1/keychain', '{'),
      await caller.post('/prof/events/evs-1', '['),
    ];
    for (const { status, body } of responses) {
      expect(status).toBe(404);
      expect(body.message).toContain('real-time features are not enabled for the tenant');
    }
    expect((await caller.control('change')).body.realtime).toEqual({ collections: {}, segments: {} });
    await caller.control('realtime', { enabled: true });
    expect((await caller.get('/prof/collections/col-1/stats')).status).toBe(200);
  });

  it('hides a segment and shows it again', async () => {
    const caller = await start({ profiles: 1000 });
    const [id] = (await caller.members('seg-gold')) as [string];
    await caller.control('realtime', { segment: 'seg-gold', exists: false });
    expect((await caller.get('/prof/segments/seg-gold/profiles')).status).toBe(404);
    expect(await caller.segmentsOf(id)).not.toContain('seg-gold');
    expect(Object.keys((await caller.control('change', { deleted: 0, updated: 0 })).body.realtime.segments)).toEqual([
      'seg-vip',
      'seg-lapsed',
      'seg-regular-guest',
    ]);
    await caller.control('realtime', { segment: 'seg-gold', exists: true });
    expect(await caller.segmentsOf(id)).toContain('seg-gold');
    await expect(caller.control('realtime', { segment: 'seg-none', exists: false })).rejects.toThrow('404');
    await expect(caller.control('realtime', { segment: 'seg-gold' })).rejects.toThrow('400');
  });
});

describe('permissions (specification, section 5)', () => {
  it.each([
    ['POST', '/prof/events/evs-1', ['profile-events:write']],
    ['POST', '/prof/lookup/col-1/keychain', ['profile-collections:read', 'pii:read']],
    ['GET', '/prof/lookup/col-1/keychain', ['profile-collections:read', 'pii:read']],
    ['GET', '/prof/profiles/col-1/p-1', ['profile-collections:read', 'pii:read']],
    ['GET', '/prof/profiles/col-1/p-1/segments', ['real-time-segments:read', 'pii:read']],
    ['GET', '/prof/segments/seg-vip/profiles', ['real-time-segments:read', 'pii:read']],
    ['GET', '/prof/collections/col-1/stats', ['profile-collections:read']],
    ['GET', '/prof/collections/col-1/history', ['profile-collections:read']],
  ])('of %s %s are all needed, and 403 names the missing one', async (method, path, needed) => {
    const caller = await start({ profiles: 10 });
    for (const missing of needed) {
      const allowed = permissions.filter((one) => one !== missing && one !== 'streaming-ingest-api:write');
      await caller.control('keys', { action: 'permit', key: 'default', permissions: allowed });
      const { status, body } = await caller.send(method, path);
      expect([status, body.message]).toEqual([403, expect.stringContaining(missing)]);
    }
    await caller.control('keys', { action: 'permit', key: 'default', permissions: needed });
    expect((await caller.send(method, path)).status).not.toBe(403);
  });
});

it('events are accepted with either of their two permissions', async () => {
  const caller = await start({ profiles: 10 });
  for (const [allowed, isEnough] of [
    ['profile-events:write', true],
    ['streaming-ingest-api:write', true],
    ['pii:read', false],
  ] as const) {
    await caller.control('keys', { action: 'permit', key: 'default', permissions: [allowed] });
    expect([allowed, (await caller.send('POST', '/prof/events/evs-1')).status !== 403]).toEqual([allowed, isEnough]);
  }
});

describe('budget', () => {
  it('is separate from those of the other APIs', async () => {
    const caller = await start({ profiles: 10, rateLimits: { realtime: 2 } });
    const responses = await Promise.all([1, 2, 3].map(() => caller.get('/prof/collections/col-1/stats')));
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
    expect((await caller.get('/api/indexes', { 'api-version': '2025-07-31' })).status).toBe(200);
  });
});

import { afterEach, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { RealtimeCaller } from './realtime-caller.js';

const started: LocalService[] = [];
async function start(options: Parameters<typeof startLocalService>[0]): Promise<RealtimeCaller> {
  const service = await startLocalService(options);
  started.push(service);
  return new RealtimeCaller(service);
}
afterEach(() => Promise.all(started.splice(0).map((service) => service.close())));

const now = Date.UTC(2026, 2, 10, 14, 30, 20);
/** A clock that does not move. */
const clock = { now: () => now, monotonic: () => 0, sleep: async () => undefined };
const history = '/prof/collections/col-1/history';
const hourMs = 3_600_000;

describe('GET /collections/{collection-id}/stats (specification, section 4.10)', () => {
  it.each([
    [0, 0, 0],
    [1, 1, 1],
    [49, 49, 40],
    [50, 50, 40],
    [499, 50, 40],
    [5000, 500, 40],
  ])('counts the profiles of both collections: of %i people %i and %i', async (profiles, customers, guests) => {
    const caller = await start({ profiles });
    expect([await caller.total('col-1'), await caller.total('col-2')]).toEqual([customers, guests]);
  });

  it('counts links by key name, those of events included', async () => {
    const caller = await start({ profiles: 1000 });
    const { body } = await caller.get('/prof/collections/col-1/stats');
    expect(body).toEqual({
      total_profiles: 100,
      link_cardinality: { email: expect.any(Number), phone: 100, loyalty_id: 100 },
    });
    expect(body.link_cardinality.email).toBeGreaterThan(100);
    await caller.event({ keys: { email: 'a@example.org', cookie: 'c' } });
    expect((await caller.get('/prof/collections/col-1/stats')).body).toEqual({
      total_profiles: 101,
      link_cardinality: { email: body.link_cardinality.email + 1, phone: 100, loyalty_id: 100, cookie: 1 },
    });
  });

  it('is 404 for an unknown collection', async () => {
    const caller = await start({ profiles: 10 });
    expect((await caller.get('/prof/collections/col-9/stats')).status).toBe(404);
    expect((await caller.get('/prof/collections/col-9/history')).status).toBe(404);
  });
});

describe('GET /collections/{collection-id}/history (specification, section 4.10)', () => {
  it('gives the last 30 days by default, growing to the present size', async () => {
    const caller = await start({ profiles: 50_000, clock });
    const { body } = await caller.get(history);
    expect(body.scale).toBe('day');
    expect(body.data.length).toBe(30);
    expect(body.data[0].bucket).toBe('2026-02-09T00:00:00.000Z');
    expect(body.data.at(-1)).toEqual({ bucket: '2026-03-10T00:00:00.000Z', count: 5000 });
    const counts = body.data.map(({ count }: { count: number }) => count);
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
    expect(counts[0]).toBeLessThan(5000);
  });

  it.each([
    ['scale=minute&after=2026-03-10T14:00:00Z&before=2026-03-10T14:05:00Z', '2026-03-10T14:00:00.000Z', 6],
    ['scale=minute&after=2026-03-10T14:00:59Z&before=2026-03-10T14:05:01Z', '2026-03-10T14:00:00.000Z', 6],
    ['scale=hour&after=2026-03-10T00:00:00Z', '2026-03-10T00:00:00.000Z', 15],
    ['scale=hour&before=2026-03-10T00:00:00Z', '2026-03-08T19:00:00.000Z', 30],
    ['after=2026-03-01&before=2027-01-01', '2026-03-01T00:00:00.000Z', 10],
    ['after=2027-01-01', undefined, 0],
    ['scale=hour&after=2026-03-10T02:00:00%2B02:00', '2026-03-10T00:00:00.000Z', 15],
  ])('gives the buckets of %s', async (query, first, count) => {
    const caller = await start({ profiles: 100, clock });
    const { body } = await caller.get(`${history}?${query}`);
    expect([body.data[0]?.bucket, body.data.length]).toEqual([first, count]);
  });

  it.each([
    'scale=week',
    'scale=',
    'after=2026-03-02&before=2026-03-01',
    'after=2026-03-02&before=2026-03-02',
    'after=yesterday',
    'before=1741617020',
    'after=2026-02-30',
    'before=2026-02-31T00:00:00Z',
    'scale=minute&after=2026-01-01',
    'after=2026-03-01&after=2026-03-02',
  ])('is 400 for %s', async (query) => {
    const caller = await start({ profiles: 10, clock });
    expect((await caller.get(`${history}?${query}`)).status).toBe(400);
  });

  it('gives the count at the end of each bucket, and the present count for the present bucket', async () => {
    const caller = await start({ profiles: 1000, clock });
    await caller.event({ keys: { email: 'a@example.org' } });
    await caller.control('time', { advance_ms: hourMs });
    await caller.event({ keys: { email: 'b@example.org' } });
    await caller.event({ keys: { email: 'c@example.org' } });
    await caller.control('time', { advance_ms: 2 * hourMs });
    const { deleted, total } = (await caller.control('change', { deleted: 0.5, inserted: 0 })).body.realtime
      .collections['col-1'];
    expect(deleted).toBeGreaterThan(0);
    const { body } = await caller.get(`${history}?scale=hour&after=2026-03-10T14:00:00Z`);
    expect(body.data.map(({ count }: { count: number }) => count)).toEqual([101, 103, 103, total]);
    expect(total).toBe(await caller.total());
  });
});

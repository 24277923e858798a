import { expect } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { JumpingClock } from '../../unit/api/clocks.js';
import { parse, withStream } from '../../unit/config/sample.js';
import { type Checks, Setting } from './setting.js';

const stream = ['source: index_profiles', 'index: loyalty_members'];

/** Sends a number of requests and counts the responses by status. */
async function statuses(asks: () => Promise<{ status: number }>, count: number): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (let done = 0; done < count; done += 50) {
    const responses = await Promise.all(Array.from({ length: Math.min(50, count - done) }, asks));
    for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

/** Limits. */
export const section8: Checks = {
  '8.rows.Request rate.1': async () => {
    const clock = new JumpingClock();
    const own = await Setting.own({ profiles: 1, clock });
    const sandbox = own.callerOf(await (await own.key({ tenant: 'acme-sb-8' })).issue(), 'acme-sb-8');
    expect(await statuses(() => own.profile.get('/api/indexes'), 1200)).toEqual({ 200: 1200 });
    expect(await statuses(() => sandbox.get('/api/indexes'), 850)).toEqual({ 200: 800, 429: 50 });
    expect(await statuses(() => own.profile.get('/api/indexes/none'), 5)).toEqual({ 429: 5 });
    // The limit does not cover other APIs.
    expect((await own.realtime.get('/prof/collections/col-1/stats')).status).toBe(200);
    clock.jump(1000);
    expect(await statuses(() => sandbox.get('/api/indexes'), 5)).toEqual({ 200: 5 });
  },
  '8.rows.Request rate.2': async (setting) => {
    await setting.profile.control('faults', { kind: 'throttle', count: 3, retry_after: 2 });
    const { send, meter, clock } = setting.client();
    expect(await send(indexesPageOperation({}))).toEqual((await setting.profile.get('/api/indexes')).body);
    expect(meter).toMatchObject({ requests: 4, throttled: 3 });
    expect(clock.slept.filter((ms) => ms >= 2000).length).toBeGreaterThanOrEqual(3);
  },
  '8.rows.Request rate.3': async (setting) => {
    const text = withStream(...stream).replace('tenant_id: acme', 'tenant_id: acme\n  rate_limits: { profile: 5000 }');
    const { rateLimits } = parse(text).service;
    const { send, effectiveLimit } = setting.client({ rateLimits });
    await send(indexesPageOperation({}));
    expect(effectiveLimit('profile')).toBe(5000);
    expect(parse(withStream(...stream)).service.rateLimits.profile).toBe(2000);
  },
  '8.rows.Default page size': async () => {
    const own = await Setting.own({ profiles: 1 });
    for (let n = 0; n < 23; n += 1) await own.profile.control('profiles', { index: `made_${n}`, records: [] });
    const { data, next_token } = await own.profile.read('/api/indexes');
    expect([data.length, typeof next_token]).toEqual([25, 'string']);
  },
  '8.rows.Fields per index': async () => {
    const own = await Setting.own({ profiles: 300 });
    await own.profile.control('change', { days: 20, updated: 0.5, inserted: 0.1, deleted: 0.05 });
    for (const index of ['loyalty_members', 'newsletter_subscribers', 'store_visitors']) {
      const profiles = await own.profile.records(`${await own.members(index)}?limit=500`);
      const fields = new Set(profiles.flatMap(({ attributes }) => Object.keys(attributes)));
      expect(fields.size).toBeGreaterThan(5);
      expect(fields.size).toBeLessThanOrEqual(30);
    }
  },
  '8.rows.Deposed token validity': async () => {
    const clock = new JumpingClock();
    const own = await Setting.own({ clock });
    const key = await own.key();
    const old = await key.issue({ days: null });
    await key.issue({ rotate: true });
    clock.jump(30 * 86_400_000 - 1000);
    expect(await key.accepted(old)).toEqual([true]);
    clock.jump(1000);
    expect(await key.accepted(old)).toEqual([false]);
  },
};

import { afterEach, describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/core/clock.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';

/** A clock that moves only if a test moves it. */
class SetClock implements Clock {
  at = 5_000;
  now = () => this.at;
  monotonic = () => this.at;
  sleep = async () => undefined;
}

let service: LocalService;
afterEach(() => service.close());

async function start(profile: number) {
  const clock = new SetClock();
  service = await startLocalService({ profiles: 10, clock, rateLimits: { profile } });
  return { clock, caller: new Caller(service) };
}

async function statuses(caller: Caller, count: number): Promise<number[]> {
  const responses = await Promise.all(Array.from({ length: count }, () => caller.get('/api/indexes')));
  return responses.map(({ status }) => status).sort();
}

describe('the limit of the Profile API (specification, section 8)', () => {
  it('lets only the allowed number of requests pass in any second', async () => {
    const { clock, caller } = await start(5);
    expect(await statuses(caller, 3)).toEqual([200, 200, 200]);
    clock.at += 600;
    expect(await statuses(caller, 4)).toEqual([200, 200, 429, 429]);
    clock.at += 399;
    expect(await statuses(caller, 1)).toEqual([429]);
    // The first three requests leave the second; the two that arrived 600 ms later are still in it.
    clock.at += 1;
    expect(await statuses(caller, 5)).toEqual([200, 200, 200, 429, 429]);
    clock.at += 600;
    expect(await statuses(caller, 3)).toEqual([200, 200, 429]);
  });

  it('says in Retry-After when to try again', async () => {
    const { caller } = await start(1);
    await caller.get('/api/indexes');
    const { status, headers, body } = await caller.get('/api/indexes');
    expect(status).toBe(429);
    expect(headers.get('retry-after')).toBe('1');
    expect(body).toMatchObject({ status: 429, message: 'too many requests' });
  });

  it('is shared by a tenant and its sandboxes, and by no other tenant', async () => {
    const { caller } = await start(4);
    for (const tenant of ['acme-sb-1', 'acme-sb-2', 'acme-other']) {
      await caller.control('keys', { action: 'create', name: tenant, tenant });
    }
    const of = async (tenant: string) => {
      const { body } = await caller.control('keys', { action: 'issue', key: tenant });
      return new Caller(service, body.token, tenant);
    };
    const [one, two, other] = [await of('acme-sb-1'), await of('acme-sb-2'), await of('acme-other')];
    expect(await statuses(caller, 2)).toEqual([200, 200]);
    expect(await statuses(one, 1)).toEqual([200]);
    expect(await statuses(two, 2)).toEqual([200, 429]);
    expect(await statuses(caller, 1)).toEqual([429]);
    expect(await statuses(other, 4)).toEqual([200, 200, 200, 200]);
    const { body } = await caller.control('stats', {}, 'GET');
    expect(body.peak_per_second).toEqual({ acme: { profile: 6 }, 'acme-other': { profile: 4 } });
    expect(body.throttled).toBe(2);
  });

  it('counts requests that fail, whatever the reason', async () => {
    const { caller } = await start(2);
    await caller.get('/api/indexes/none');
    await caller.get('/api/indexes', { authorization: 'Bearer wrong' });
    expect(await statuses(caller, 1)).toEqual([429]);
  });

  it('is not moved by the service’s time of day', async () => {
    const { caller } = await start(1);
    await caller.get('/api/indexes');
    await caller.control('time', { advance_ms: 60_000 });
    expect(await statuses(caller, 1)).toEqual([429]);
  });

  it('does not apply to the token endpoint; 0 switches it off', async () => {
    const { caller } = await start(0);
    expect(new Set(await statuses(caller, 50))).toEqual(new Set([200]));
  });

  it('is 2000 per second by default', async () => {
    const clock = new SetClock();
    service = await startLocalService({ profiles: 1, clock });
    const caller = new Caller(service);
    const counts = new Map<number, number>();
    for (let round = 0; round < 41; round += 1) {
      for (const status of await statuses(caller, 50)) counts.set(status, (counts.get(status) ?? 0) + 1);
    }
    expect(Object.fromEntries(counts)).toEqual({ 200: 2000, 429: 50 });
  });
});

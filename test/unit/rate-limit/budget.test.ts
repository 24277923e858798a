import { expect, it } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { systemClock } from '../../../src/core/clock.js';
import { type Budget, type RateLimiter, tenantFamily } from '../../../src/rate-limit/budget.js';
import { ProcessBudget } from '../../../src/rate-limit/open-budget.js';
import { JumpingClock } from '../api/clocks.js';
import { emptyPage, rawService, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

const list = indexesPageOperation({});

/** A service that refuses a request if the second before it, both ends included, already has `limit` requests. */
function strictService(limit: number) {
  const taken: number[] = [];
  return scriptedService((response) => {
    const now = performance.now();
    const oldest = taken.at(-limit);
    response.statusCode = oldest !== undefined && now - oldest <= 1_000 ? 429 : 200;
    if (response.statusCode === 200) taken.push(now);
    response.end('{"data":[]}');
  });
}

it('a service that counts strictly refuses nothing, and gets as many requests as it allows', async () => {
  const limit = 100;
  const service = await strictService(limit);
  const rateLimits = { profile: limit, management: 1, realtime: 1 };
  const { send, meter } = testClient(serviceOptions(service.baseUrl, { rateLimits }), { clock: systemClock });
  let left = 2 * limit + 10;
  const started = performance.now();
  const chain = async () => {
    while (left-- > 0) await send(list);
  };
  await Promise.all(Array.from({ length: 16 }, chain));
  expect(meter).toMatchObject({ requests: 2 * limit + 10, throttled: 0 });
  // Two whole seconds are needed; a busy machine may add the rest.
  expect(performance.now() - started).toBeGreaterThan(2_000);
  expect(performance.now() - started).toBeLessThan(6_000);
});

it('the budget adapts to a service that allows less than configured, and no request is lost', async () => {
  const service = await strictService(20);
  const retry = { patienceMs: 300000, maxDelayMs: 60_000 };
  const { send, meter, effectiveLimit } = testClient(serviceOptions(service.baseUrl, { retry }), {
    clock: systemClock,
  });
  await Promise.all(Array.from({ length: 60 }, () => send(list)));
  expect(meter.throttled).toBeGreaterThan(0);
  expect(meter.requests).toBe(60 + meter.throttled);
  expect(effectiveLimit('profile')).toBeLessThan(2_000);
});

it('a request that was lost after it was sent counts for a second from its loss', async () => {
  const service = await rawService((socket, request) => {
    if (request === 0) socket.resetAndDestroy();
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}');
  });
  const rateLimits = { profile: 1, management: 1, realtime: 1 };
  const { send, clock } = testClient(serviceOptions(service.baseUrl, { rateLimits }));
  await send(list);
  expect(clock.monotonic()).toBeGreaterThan(1_000);
});

it.each([
  ['acme-sb-3', 'acme'],
  ['acme-sb', 'acme'],
  ['acme-17', 'acme-17'],
  ['acme-sbx', 'acme-sbx'],
])('the limit of %s is that of %s', (tenant, family) => {
  expect(tenantFamily(tenant)).toBe(family);
});

it('a tenant and its sandbox share a budget across clients; the groups of the API do not', async () => {
  const service = await scriptedService(emptyPage);
  const clock = new JumpingClock();
  const budget = new ProcessBudget(clock);
  const rateLimits = { profile: 1, management: 1, realtime: 1 };
  const production = testClient(serviceOptions(service.baseUrl, { rateLimits }), { clock, budget });
  const sandbox = testClient(serviceOptions(service.baseUrl, { rateLimits, tenantId: 'acme-sb-3' }), {
    clock,
    budget,
  });
  await production.send(list);
  await production.send({ ...list, group: 'management' });
  await production.send({ ...list, group: 'realtime' });
  expect(clock.monotonic()).toBe(0);
  await sandbox.send(list);
  expect(clock.monotonic()).toBeGreaterThan(1_000);
});

/** The simplest other budget: one request at a time; it lists every call. */
function oneAtATime(notices: string[]): Budget {
  let turn = Promise.resolve();
  const limiter: RateLimiter = {
    effectiveLimit: 1,
    acquire: () => {
      let end = () => {};
      const mine = turn.then(() => {
        const ended = (word: string) => () => {
          notices.push(word);
          end();
        };
        return { answered: ended('answered'), failed: ended('failed'), cancelled: ended('cancelled') };
      });
      turn = turn.then(() => new Promise((resolve) => (end = resolve)));
      return mine;
    },
    throttled: (ms) => notices.push(`throttled ${ms}`),
    pause: (ms) => notices.push(`pause ${ms}`),
  };
  return {
    limiterFor: ({ family, group }, limit) => {
      notices.push(`${family} ${group} ${limit}`);
      return limiter;
    },
    close: async () => undefined,
  };
}

it('a client uses another kind of budget: one limiter a group, a permit for each request, a call for each refusal', async () => {
  const service = await scriptedService(
    { status: 429, headers: { 'retry-after': '2' } },
    { status: 503, headers: { 'retry-after': '3' } },
    (response) => response.destroy(),
    emptyPage,
  );
  const notices: string[] = [];
  const { send } = testClient(serviceOptions(service.baseUrl, { tenantId: 'acme-sb-1' }), {
    budget: oneAtATime(notices),
  });
  await send(list);
  await send(list);
  expect(notices).toEqual([
    'acme profile 2000',
    'answered',
    'throttled 2000',
    'answered',
    'pause 3000',
    'failed',
    'answered',
    'answered',
  ]);
});

it('a permit that lapses before its request is written is given back, and another one is asked for', async () => {
  const service = await scriptedService(emptyPage);
  const notices: string[] = [];
  let permits = 0;
  const limiter: RateLimiter = {
    effectiveLimit: 1,
    acquire: async () => {
      permits += 1;
      const notify = (word: string) => () => notices.push(word);
      return {
        isLapsed: permits <= 2,
        answered: notify('answered'),
        failed: notify('failed'),
        cancelled: notify('cancelled'),
      };
    },
    throttled: () => undefined,
    pause: () => undefined,
  };
  const budget: Budget = { limiterFor: () => limiter, close: async () => undefined };
  const { send, meter, clock } = testClient(serviceOptions(service.baseUrl), { budget });
  await send(list);
  expect(notices).toEqual(['cancelled', 'cancelled', 'answered']);
  expect([meter.requests, meter.retries, clock.monotonic()]).toEqual([1, 0, 0]);
});

import { expect, it } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { emptyPage, type Reply, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});

/** A service that is away for a time of the client's clock, after its first response. */
async function awayFor(ms: number) {
  let isAway: () => boolean = () => false;
  const reply: Reply = (response) => {
    response.statusCode = isAway() ? 503 : 200;
    response.end(JSON.stringify(emptyPage));
  };
  const service = await scriptedService(reply);
  const setup = testClient(serviceOptions(service.baseUrl));
  await setup.send(list);
  const until = setup.clock.monotonic() + ms;
  isAway = () => setup.clock.monotonic() < until;
  return { ...setup, service };
}

it.each([1, 64])('Four minutes of 503 are survived by %i chains, with less than 100 requests', async (chains) => {
  const { send, service } = await awayFor(240_000);
  await Promise.all(Array.from({ length: chains }, () => send(list)));
  expect(service.received.length - 1 - chains).toBeLessThan(100);
});

it('An outage longer than the patience fails all who wait, each with its own error', async () => {
  const { failure, clock } = await awayFor(1_000_000);
  const errors = await Promise.all(Array.from({ length: 20 }, () => failure(list)));
  expect(new Set(errors).size).toBe(20);
  for (const error of errors) {
    expect(error).toMatchObject({ code: 'service_unavailable', status: 503 });
    expect(error.message).toContain('since 2026-01-01T00:00:00Z');
  }
  expect(clock.monotonic()).toBeLessThanOrEqual(301_000);
});

it('An interruption ends the pause of an outage at once', async () => {
  const { failure, abort, meter } = await awayFor(1_000_000);
  const error = failure(list);
  while (meter.retries === 0) await new Promise(setImmediate);
  abort.abort();
  expect(await error).toMatchObject({ code: 'interrupted' });
});

it.each([
  [{ status: 503 }, 'service_unavailable', 503],
  [{ status: 504, body: { message: 'late' } }, 'service_unavailable', 504],
  [{ status: 200, body: 7 }, 'malformed_response', 200],
  [{ status: 202, body: {} }, 'malformed_response', 202],
  [{ status: 429 }, 'too_many_requests', 429],
] as const)(
  'The error of a service that responds %j for the whole patience has the code %s',
  async (reply, code, status) => {
    const service = await scriptedService(reply as Reply);
    expect(await testClient(serviceOptions(service.baseUrl)).failure(list)).toMatchObject({
      code,
      status,
      kind: 'retryable',
    });
  },
);

it('A service that was reached, and then is not there, is unavailable; one that was never reached has another address', async () => {
  const service = await scriptedService(emptyPage);
  const reached = testClient(serviceOptions(service.baseUrl));
  await reached.send(list);
  await service.stop();
  const error = await reached.failure(list);
  expect(error).toMatchObject({ code: 'service_unavailable', status: undefined });
  expect(error.message).toContain('the Profile API has not answered since');
  expect(await testClient(serviceOptions(service.baseUrl)).failure(list)).toMatchObject({ code: 'unreachable' });
});

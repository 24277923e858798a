import { expect, it } from 'vitest';
import { auditEventsPageOperation } from '../../../src/api/management-api.js';
import { readableUntil } from '../../../src/engine/run/service-time.js';
import type { WindowedSource } from '../../../src/sources/source.js';
import { type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

const hourMs = 3_600_000;
const source = {
  kind: 'windowed',
  page: ({ window }) => auditEventsPageOperation({ happenedFrom: window.from, happenedTo: window.to }),
} as Partial<WindowedSource> as WindowedSource;

/** A service whose clock is late by this much beside the client's, or ahead if negative. */
async function untilOf(behindMs: number, { isStrict = false, hasDate = true } = {}) {
  let now = (): number => 0;
  const reply: Reply = (response, { url }) => {
    const isFuture = Date.parse(url.searchParams.get('happened_to') as string) > now();
    response.sendDate = false;
    if (hasDate) response.setHeader('date', new Date(now()).toUTCString());
    response.statusCode = isStrict && isFuture ? 400 : 200;
    response.end(JSON.stringify({ data: [], message: 'a window in the future' }));
  };
  const service = await scriptedService(reply);
  const { client, abort, clock, meter } = testClient(serviceOptions(service.baseUrl));
  now = () => clock.now() - behindMs;
  const until = await readableUntil({ client, clock, signal: abort.signal }, source, meter);
  return { ahead: until - now(), requests: service.received.length };
}

it.each([0, 400 * 24 * hourMs, hourMs, -hourMs])(
  'a list is read to the second that is under way at the service, whose clock is %i ms behind',
  async (behindMs) => {
    expect(await untilOf(behindMs)).toEqual({ ahead: 1_000, requests: 1 });
  },
);

it.each([0, 365 * 24 * hourMs, hourMs, -hourMs])(
  'a service that refuses windows in the future is read to its present, %i ms behind',
  async (behindMs) => {
    expect(await untilOf(behindMs, { isStrict: true })).toEqual({ ahead: 0, requests: 2 });
  },
);

it('without a date in its responses the clock of this machine counts', async () => {
  expect(await untilOf(0, { hasDate: false })).toEqual({ ahead: 0, requests: 1 });
});

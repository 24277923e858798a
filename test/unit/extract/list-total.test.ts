import { expect, it } from 'vitest';
import { profilesPageOperation } from '../../../src/api/profile-api.js';
import { ListTotal } from '../../../src/extract/list-total.js';
import { type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

const counted = profilesPageOperation({ indexId: 'i', limit: 1, withTotal: true });

async function totalOf(...replies: Reply[]) {
  const service = await scriptedService(...replies);
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl));
  const lines: string[] = [];
  const total = new ListTotal(client, { signal: abort.signal, meter, notice: (line) => lines.push(line) });
  return { total, lines, service, clock };
}

it.each([400, 404, 422, 500, 501, 503, 504])(
  'A total that is refused with %i is absent: said once, soon, and not asked for again',
  async (status) => {
    const { total, lines, service, clock } = await totalOf({ status });
    expect([await total.ask(counted, false), await total.ask(counted, false)]).toEqual([null, null]);
    expect(lines).toEqual([
      `the service answered ${status} to a request for the total of the list: it is read without one`,
    ]);
    expect(service.received.length).toBeLessThanOrEqual(3);
    expect(clock.monotonic()).toBeLessThan(2_000);
  },
);

it('A service that fails once gives the total', async () => {
  const { total, lines } = await totalOf({ status: 504 }, { status: 200, body: { data: [], total: 7 } });
  expect(await total.ask(counted, false)).toBe(7);
  expect(lines).toEqual([]);
});

it.each([
  [{ data: [] }, null],
  [{ total: 3 }, 3],
  [{ data: [], total: -1 }, null],
])('A page %j has the total %j', async (body, expected) => {
  const { total } = await totalOf({ status: 200, body });
  expect(await total.ask(counted, false)).toBe(expected);
});

it.each([401, 403])('A refusal with %i is about the key', async (status) => {
  const { total } = await totalOf({ status });
  await expect(total.ask(counted, false)).rejects.toMatchObject({ status });
});

it('A total without which the list cannot be read is waited for', async () => {
  const { total, service } = await totalOf(...Array.from({ length: 8 }, () => ({ status: 504 })), {
    status: 200,
    body: { total: 2 },
  });
  expect(await total.ask(counted, true)).toBe(2);
  expect(service.received).toHaveLength(9);
});

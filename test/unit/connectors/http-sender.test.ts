import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, expect, it, vi } from 'vitest';
import { Rate } from '../../../connectors/http/rate.js';
import type { OutgoingRecord } from '../../../src/sdk/index.js';
import { httpDestinations, json, types } from '../../fixtures/http-destinations.js';
import { someRecords } from '../../fixtures/record-driver.js';

const { receiver, base, open, once } = httpDestinations();
const { signal } = new AbortController();
afterEach(() => vi.useRealTimers());
const row = (id: string) => [{ ...(someRecords(1)[0] as OutgoingRecord), json: JSON.stringify({ id }) }];

it('waits after a success that says that the limit is used up', async () => {
  const times: number[] = [];
  receiver().reset((_, response) => {
    times.push(performance.now());
    response.writeHead(204, { 'ratelimit-remaining': '0', 'ratelimit-reset': '1' }).end();
  });
  await once({}, someRecords(2));
  expect((times[1] as number) - (times[0] as number)).toBeGreaterThan(900);
});

it.each([
  [502, true],
  [504, true],
  [500, false],
])('after %d, which a gateway may give for work that was done, the key is the same: %s', async (status, isSame) => {
  receiver().reset((_, response, count) => response.writeHead(count === 1 ? status : 204).end());
  const destination = await open({ idempotency: { header: 'x-once' } });
  for (const type of ['again', 'acknowledged'])
    expect(types(await destination.send(someRecords(1), signal))).toEqual([type]);
  const [one, two] = receiver().received.map(({ headers }) => headers['x-once']);
  expect(one === two).toBe(isSame);
});

it('uses a token until a tenth of a short life is left', async () => {
  let logins = 0;
  receiver().reset(({ path }, response) => {
    if (path !== '/token') return void response.writeHead(204).end();
    logins += 1;
    json(response, 200, { access_token: 't', expires_in: 30 });
  });
  const oauth2 = { token_url: `${base()}/token`, client_id: 'c', client_secret: 's' };
  expect(types(await once({ auth: { oauth2 } }, someRecords(3)))).toEqual(Array(3).fill('acknowledged'));
  expect(logins).toBe(1);
});

it('counts the requests of a process that was killed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-rate-'));
  const limits = [{ requests: 3, per: 60_000 }];
  try {
    const killed = await Rate.open(limits, folder);
    for (let sent = 0; sent < 3; sent += 1) await killed.send(1, signal, async () => undefined);
    const rate = await Rate.open(limits, folder);
    await expect(rate.send(1, AbortSignal.timeout(300), async () => 'sent')).rejects.toThrow();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it('counts a request while it is under way, however long, and for a window after its end', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-rate-'));
  const windowMs = 100;
  try {
    const rate = await Rate.open([{ requests: 2, per: windowMs }], folder);
    let respond = () => {};
    const response = new Promise<void>((resolve) => {
      respond = resolve;
    });
    const slow = [rate.send(1, signal, () => response), rate.send(1, signal, () => response)];
    let began = 0;
    const next = rate.send(1, signal, async () => {
      began = performance.now();
    });
    await setTimeout(4 * windowMs);
    expect(began).toBe(0);
    const ended = performance.now();
    respond();
    await Promise.all([...slow, next]);
    expect(began - ended).toBeGreaterThan(windowMs);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it('does not wait for requests of a clock that was set back', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-rate-'));
  const limits = [{ requests: 1, per: 60_000 }];
  const now = Date.now();
  try {
    vi.useFakeTimers({ toFake: ['Date'], now: now + 3_600_000 });
    const before = await Rate.open(limits, folder);
    await before.send(1, signal, async () => undefined);
    await before.close();
    vi.setSystemTime(now);
    const rate = await Rate.open(limits, folder);
    expect(await rate.send(1, AbortSignal.timeout(2_000), async () => 'sent')).toBe('sent');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it('sets a row aside whose raw value would make an empty segment beside it', async () => {
  expect(types(await once({ url: `${base()}/idx/{{ id | raw }}/y` }, row('a//b')))).toEqual(['refused']);
  expect(receiver().received).toEqual([]);
});

it('hides a value that a reason has percent-encoded', async () => {
  receiver().reset((_, response) => json(response, 422, { message: 'nothing at /p/Anna%20M%C3%BCller%2Fx' }));
  const [result] = await once({}, row('Anna Müller/x'));
  expect(result).toMatchObject({ type: 'refused', reason: expect.stringMatching(/nothing at \/p\/\[value\]$/) });
});

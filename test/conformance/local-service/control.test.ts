import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { requestControl } from '../../fixtures/control.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';
import { Caller } from './caller.js';

const started: LocalService[] = [];
async function start(options: Parameters<typeof startLocalService>[0]): Promise<Caller> {
  const service = await startLocalService(options);
  started.push(service);
  return new Caller(service);
}
afterEach(() => Promise.all(started.splice(0).map((service) => service.close())));

describe('records given by a test', () => {
  const texts = [
    '{"id":"1","index_id":"x","attributes":{"n":123456789012345678901234567890,"zip":"02134"}}',
    '{ "id" : "2" , "attributes" : { "n" : 1.0, "zip": "x" } }',
    '{"id":"3","attributes":[{"zip":"02134","u":"\\ud800"}]}',
    '42',
    'not even JSON',
  ];

  it('are served byte for byte, in order, in pages', async () => {
    const caller = await start({ profiles: 5 });
    const { id } = (await caller.control('profiles', { index: 'odd', records: texts, filterable: ['zip'] })).body;
    expect(await caller.indexId('odd')).toBe(id);
    const path = `/api/indexes/${id}/profiles`;
    expect((await caller.get(path)).text).toBe(`{"data":[${texts.join(',')}]}`);
    const first = await caller.read(`${path}?limit=2&with_total=true`);
    expect(first.total).toBe(5);
    expect((await caller.get(`${path}?limit=2&next_token=${first.next_token}`)).text).toMatch(
      `{"data":[${texts[2]},${texts[3]}],"next_token":"`,
    );
    expect((await caller.get(`${path}/2`)).text).toBe(texts[1]);
    expect((await caller.get(`${path}/4`)).status).toBe(404);
    expect((await caller.get(`${path}?filter[zip]=02134`)).text).toBe(`{"data":[${texts[0]},${texts[2]}]}`);
    expect((await caller.get(`${path}?filter[n]=1`)).status).toBe(400);
  });

  it('may be large among many small ones', async () => {
    const caller = await start({ profiles: 5 });
    const records = Array.from({ length: 1000 }, (_, at) => ({
      id: String(at),
      note: 'x'.repeat(at === 500 ? 16e6 : 1),
    }));
    const { id } = (await caller.control('profiles', { index: 'large', records })).body;
    expect((await caller.read(`/api/indexes/${id}/profiles?limit=1000`)).data).toEqual(records);
  });

  it('can be replaced and removed, and can hide a generated index', async () => {
    const caller = await start({ profiles: 5 });
    const generated = await caller.indexId('loyalty_members');
    await caller.control('profiles', { index: 'loyalty_members', records: [{ id: 'a', attributes: {} }] });
    const id = await caller.indexId('loyalty_members');
    expect((await caller.get(`/api/indexes/${generated}`)).status).toBe(404);
    expect((await caller.read(`/api/indexes/${id}/profiles`)).data).toEqual([{ id: 'a', attributes: {} }]);
    await caller.control('profiles', { index: 'loyalty_members', records: [] });
    expect(await caller.indexId('loyalty_members')).toBe(id);
    expect((await caller.read(`/api/indexes/${id}/profiles`)).data).toEqual([]);
    await caller.control('profiles', { index: 'loyalty_members' }, 'DELETE');
    expect(await caller.indexId('loyalty_members')).toBe(generated);
  });
});

describe('time', () => {
  it('moves, and the Date header with it', async () => {
    const caller = await start({ profiles: 1 });
    await caller.control('time', { advance_ms: 7 * 86_400_000 });
    const date = Date.parse((await caller.get('/api/indexes')).headers.get('date') as string);
    expect(Math.abs(date - Date.now() - 7 * 86_400_000)).toBeLessThan(5000);
    const { now } = (await caller.control('time', {}, 'GET')).body;
    expect(Math.abs(Date.parse(now) - date)).toBeLessThan(5000);
  });
});

describe('statistics', () => {
  it('count requests, pages, statuses and the most requests in a second, until they are reset', async () => {
    const caller = await start({ profiles: 1 });
    const id = await caller.indexId('loyalty_members');
    await caller.get(`/api/indexes/${id}/profiles`);
    await caller.get('/api/indexes/none');
    const { body } = await caller.control('stats', {}, 'GET');
    expect(body).toEqual({
      requests: 3,
      throttled: 0,
      pages: 2,
      operations: { 'GET /api/indexes': 1, 'GET /api/indexes/{id}/profiles': 1, 'GET /api/indexes/{id}': 1 },
      statuses: { 200: 2, 404: 1 },
      peak_per_second: { acme: { profile: 3 } },
    });
    await caller.control('stats/reset');
    expect((await caller.control('stats', {}, 'GET')).body).toMatchObject({ requests: 0, pages: 0, statuses: {} });
  });
});

describe('the control interface', () => {
  it('returns 404, 405 and 400 with error bodies', async () => {
    const { service } = await start({ profiles: 1 });
    const status = async (path: string, init?: Parameters<typeof requestControl>[2]) => {
      const response = await requestControl(service, path, init);
      expect(await response.json()).toHaveProperty('request_id');
      return response.status;
    };
    expect(await status('nothing')).toBe(404);
    expect(await status('change')).toBe(405);
    expect(await status('change', { method: 'POST', body: 'days=1' })).toBe(400);
    expect(await status('change', { method: 'POST', body: '{"days":0}' })).toBe(400);
    expect(await status('time', { method: 'POST', body: '{}' })).toBe(400);
    expect(await status('time', { method: 'POST', body: '{"advance_ms":9000000000000000}' })).toBe(400);
    expect(await status('limits', { method: 'POST', body: '{"profile":1000000000000}' })).toBe(400);
    expect((await new Caller(service).get('/api/indexes')).status).toBe(200);
    expect(await status('state/save', { method: 'POST' })).toBe(409);
  });

  it('wants its token, and refuses foreign hosts and web pages', async () => {
    const { service } = await start({ profiles: 1 });
    const { host, port } = new URL(service.url);
    const authorization = `Bearer ${service.controlToken}`;
    const status = async (headers: Record<string, string>) => {
      const response = await request(`${service.url}/_control/stats`, { headers });
      await response.body.dump();
      return response.statusCode;
    };
    expect(await status({ authorization })).toBe(200);
    expect(await status({ 'x-control-token': service.controlToken })).toBe(200);
    expect(await status({ authorization, host: `localhost:${port}` })).toBe(200);
    expect(await status({ authorization, origin: `http://${host}` })).toBe(200);
    expect(await status({})).toBe(401);
    expect(await status({ authorization: `Bearer ${service.token}` })).toBe(401);
    for (const foreign of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', '192.0.2.1', 'a b'])
      expect([foreign, await status({ authorization, host: foreign })]).toEqual([foreign, 403]);
    for (const foreign of ['http://evil.example', 'http://localhost:1', 'null', `https://evil.example:${port}`])
      expect([foreign, await status({ authorization, origin: foreign })]).toEqual([foreign, 403]);
  });

  it('has another token after each start, whatever the seed, unless one is given', async () => {
    const [one, other, input] = await Promise.all(
      [{}, {}, { controlToken: 'fixed' }].map((more) => start({ profiles: 1, seed: 1, ...more })),
    );
    expect(one?.service.controlToken).not.toBe(other?.service.controlToken);
    expect(input?.service.controlToken).toBe('fixed');
    expect(one?.service.controlToken).toMatch(/^[\da-f]{48}$/);
  });

  const outside = Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal)?.address;

  it.skipIf(outside === undefined)('is closed to other machines', async () => {
    const { service } = await start({ profiles: 1, host: '0.0.0.0' });
    const { port } = new URL(service.url);
    const from = async (host: string) => {
      const url = `http://${host}:${port}`;
      return (await requestControl({ ...service, url }, 'stats')).status;
    };
    expect([await from(outside as string), await from('127.0.0.1'), await from('localhost')]).toEqual([403, 200, 200]);
  });
});

describe('the state file', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'local-service-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('keeps keys, tokens, time and days over a restart, for its owner only', async () => {
    const stateFile = join(folder, 'state.json');
    const first = await start({ profiles: 300, stateFile });
    const members = `/api/indexes/${await first.indexId('loyalty_members')}/profiles?limit=200`;
    const { next_token: token } = await first.read(members);
    await first.control('keys', { action: 'create', name: 'extra', tenant: 'acme-sb-1' });
    await first.control('keys', { action: 'issue', rotate: true });
    await first.control('time', { advance_ms: 86_400_000 });
    await first.control('change', { days: 2, updated: 0.5 });
    const list = await first.records(members);
    await started.pop()?.close();
    expect((await stat(stateFile)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['state.json']);

    const second = new Caller((await start({ profiles: 300, stateFile })).service, first.service.token);
    expect(await second.records(members)).toEqual(list);
    expect((await second.get(`${members}&next_token=${token}`)).status).toBe(200);
    const { keys } = (await second.control('keys', {}, 'GET')).body;
    expect(keys.map(({ name, rotations }: { name: string; rotations: number }) => [name, rotations])).toEqual([
      ['default', 1],
      ['extra', 0],
    ]);
    const { now } = (await second.control('time', {}, 'GET')).body;
    expect(Date.parse(now) - Date.now()).toBeGreaterThan(86_000_000);
    // A day has passed since the rotation; 30 days after it the token of the first service is no longer valid.
    await second.control('time', { advance_ms: 29.5 * 86_400_000 });
    expect((await second.get('/api/indexes')).status).toBe(401);
  });

  it('that cannot be written is named', async () => {
    const stateFile = join(folder, 'missing', 'state.json');
    await expect(startLocalService({ profiles: 1, stateFile })).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining(`the state file ${stateFile} cannot be written`),
      hint: expect.stringContaining('another file'),
    });
  });

  it('is refused if it is damaged, or belongs to another seed', async () => {
    const damaged = join(folder, 'damaged.json');
    await writeFile(damaged, '{"version":1,');
    await expect(startLocalService({ profiles: 1, stateFile: damaged })).rejects.toMatchObject({
      code: 'service_state_unreadable',
    });
    const other = join(folder, 'other.json');
    await start({ profiles: 1, seed: 4, stateFile: other });
    await expect(startLocalService({ profiles: 1, seed: 5, stateFile: other })).rejects.toMatchObject({
      code: 'seed_mismatch',
      kind: 'configuration',
    });
    expect(JSON.parse(await readFile(other, 'utf8')).seed).toBe(4);
  });
});

describe('start and stop', () => {
  it('a port in use gives a clear error', async () => {
    const { service } = await start({ profiles: 1 });
    const port = Number(new URL(service.url).port);
    await expect(startLocalService({ profiles: 1, port })).rejects.toMatchObject({
      code: 'port_in_use',
      kind: 'configuration',
    });
  });

  it('the service stops at once, even with open, idle, hanging and slow connections', async () => {
    const service = await startLocalService({ profiles: 10, latencyMs: 0 });
    const caller = new Caller(service);
    await caller.get('/api/indexes');
    await caller.control('faults', { kind: 'hang', match: 'limit=1' });
    await caller.control('faults', { kind: 'slow', match: 'limit=2', delay_ms: 60_000 });
    const waiting = ['limit=1', 'limit=2'].map((query) => caller.get(`/api/indexes?${query}`).catch(() => 'cut'));
    const idle = connect(Number(new URL(service.url).port), '127.0.0.1').on('error', () => undefined);
    while ((await caller.control('faults', {}, 'GET')).body.faults.some(({ hits }: { hits: number }) => hits === 0));
    const began = performance.now();
    await service.close();
    expect(performance.now() - began).toBeLessThan(500);
    expect(await Promise.all(waiting)).toEqual(['cut', 'cut']);
    idle.destroy();
  });

  it('every response waits for the chosen latency', async () => {
    const caller = await start({ profiles: 1, latencyMs: 80 });
    const began = performance.now();
    await caller.get('/api/indexes');
    expect(performance.now() - began).toBeGreaterThan(75);
  });

  it.skipIf(!openssl)('the service serves HTTPS with a given certificate', async () => {
    const { key, cert } = selfSigned();
    const { service, headers } = await start({ profiles: 1, tls: { key: key.toString(), cert: cert.toString() } });
    expect(service.url).toMatch(/^https:/);
    const agent = new Agent({ connect: { rejectUnauthorized: false } });
    const all = headers as Record<string, string>;
    const { statusCode } = await request(`${service.url}/api/indexes`, { dispatcher: agent, headers: all });
    expect(statusCode).toBe(200);
    await expect(request(`${service.url}/api/indexes`, { headers: all })).rejects.toMatchObject({
      code: expect.stringMatching(/SELF_SIGNED/),
    });
    await agent.close();
  });
});

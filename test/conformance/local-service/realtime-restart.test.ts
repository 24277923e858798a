import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { RealtimeCaller } from './realtime-caller.js';

const root = join(import.meta.dirname, '..', '..', '..');
const started: LocalService[] = [];
const children: ChildProcess[] = [];
let folder: string;
let stateFile: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'realtime-'));
  stateFile = join(folder, 'state.json');
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await stop();
  await rm(folder, { recursive: true });
});

async function start(profiles = 1000): Promise<RealtimeCaller> {
  const service = await startLocalService({ profiles, stateFile });
  started.push(service);
  return new RealtimeCaller(service);
}

async function stop(): Promise<void> {
  await Promise.all(started.splice(0).map((service) => service.close()));
}

/** The same service in a separate process, which a test can kill. */
async function startProcess(): Promise<{ caller: RealtimeCaller; child: ChildProcess }> {
  const words = ['--import', 'tsx', join(root, 'src', 'cli', 'main.ts'), 'serve', '--json', '--port', '0'];
  const child = spawn(process.execPath, [...words, '--profiles', '1000', '--state', stateFile], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const [line] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
  const { url, tenant_id: tenantId, token, client_id: clientId, client_secret: clientSecret } = JSON.parse(line);
  const { control_token: controlToken } = JSON.parse(line);
  const oauthTokenUrl = `${url}/api/v0/oauth2/token`;
  const service = {
    url,
    oauthTokenUrl,
    tenantId,
    token,
    clientId,
    clientSecret,
    controlToken,
    close: async () => undefined,
  };
  return { caller: new RealtimeCaller(service), child };
}

const purchase = (number: number) => ({
  event_id: `event ${number}`,
  event_type: 'purchase',
  amount: 9000,
  keys: { email: `m${number % 20}@example.org` },
});

async function seen(caller: RealtimeCaller, id: string) {
  return {
    profile: (await caller.get(`/prof/profiles/col-1/${id}`)).text,
    bought: await caller.lookup(purchase(0).keys),
    vips: await caller.members('seg-vip'),
    lapsed: (await caller.get('/prof/segments/seg-lapsed/profiles')).status,
    stats: (await caller.get('/prof/collections/col-1/stats')).text,
    history: (await caller.get('/prof/collections/col-1/history')).text,
  };
}

describe('a restart with a state file', () => {
  it('loses nothing: events before and after days, their ids, hidden segments, the past', async () => {
    const first = await start();
    const [id] = (await first.members('seg-gold')) as [string];
    await first.event(purchase(0));
    await first.control('change', { days: 2, updated: 0.3 });
    await first.control('realtime', { segment: 'seg-lapsed', exists: false });
    const odd = '{"profile_id":"ID","attributes":{"__proto__":{"a":1}}}'.replace('ID', id);
    await Promise.all([
      first.post('/prof/events/evs-1', odd),
      first.event(purchase(1)),
      first.event({ keys: { x: '1' } }),
    ]);
    const before = await seen(first, id);
    expect(before.profile).toContain('"__proto__":"{\\"a\\":1}"');
    expect(before.lapsed).toBe(404);
    for (let restart = 0; restart < 2; restart += 1) {
      await stop();
      expect(await seen(await start(), id)).toEqual(before);
    }
    await stop();
    const last = await start();
    await last.event(purchase(0));
    expect(await last.lookup(purchase(0).keys)).toEqual(before.bought);
    await last.event({ keys: { x: '2' } });
    expect((await last.lookup({ x: '2' })).profile_id).not.toBe((await last.lookup({ x: '1' })).profile_id);
  });

  it('keeps features disabled, and keeps the data of a tenant that no request has used since', async () => {
    await (await start()).event(purchase(0));
    for (const enabled of [false, true]) {
      await stop();
      await (await start()).control('realtime', { enabled });
      await stop();
      const caller = await start();
      const asked = { keys: purchase(0).keys };
      expect((await caller.post('/prof/lookup/col-1/keychain', asked)).status).toBe(enabled ? 200 : 404);
    }
  });

  it('keeps every event accepted before a kill, and applies each once if all are sent again', async () => {
    const { caller, child } = await startProcess();
    const accepted = new Set<number>();
    const sending = Array.from({ length: 200 }, async (_, number) => {
      await caller.event(purchase(number));
      accepted.add(number);
      if (accepted.size === 100) child.kill('SIGKILL');
    });
    await Promise.allSettled(sending);
    expect(accepted.size).toBeGreaterThanOrEqual(100);
    const { caller: again } = await startProcess();
    for (let profile = 0; profile < 20; profile += 1) {
      const expected = [...accepted].filter((number) => number % 20 === profile).length;
      const { status, body } = await again.post('/prof/lookup/col-1/keychain', { keys: purchase(profile).keys });
      // An event that the service has applied, but not answered before the kill, may be there too.
      expect(status === 200 ? Number(body.attributes.purchases) : 0).toBeGreaterThanOrEqual(expected);
    }
    await Promise.all(sending.map((_, number) => again.event(purchase(number))));
    for (let profile = 0; profile < 20; profile += 1) {
      expect((await again.lookup(purchase(profile).keys)).attributes.purchases).toBe('10');
    }
  });

  it('skips a line that a crash has torn, and reads the lines after it', async () => {
    await (await start()).event(purchase(0));
    await stop();
    await appendFile(`${stateFile}.events`, '{"journal":"half a li');
    const caller = await start();
    await caller.event(purchase(20));
    await stop();
    expect((await (await start()).lookup(purchase(0).keys)).attributes.purchases).toBe('2');
  });

  it('starts from nothing without the state file, even if the events file is left', async () => {
    await (await start()).event(purchase(0));
    expect(await readFile(`${stateFile}.events`, 'utf8')).toContain('event 0');
    expect((await stat(`${stateFile}.events`)).mode & 0o777).toBe(0o600);
    await stop();
    await rm(stateFile);
    const caller = await start();
    expect((await caller.post('/prof/lookup/col-1/keychain', { keys: purchase(0).keys })).status).toBe(404);
    expect((await stat(`${stateFile}.events`)).size).toBe(0);
  });
});

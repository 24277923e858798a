import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { dayMs, iso, ManagementCaller } from './management-caller.js';
import { RealtimeCaller } from './realtime-caller.js';

let service: LocalService;
let realtime: RealtimeCaller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 500 });
  realtime = new RealtimeCaller(service);
});
afterAll(() => service.close());
afterEach(() => realtime.clearFaults());

const keychain = '/prof/lookup/col-1/keychain';

it('a lookup may take exactly one key, and its 404 may repeat the keys', async () => {
  const keys = { email: 'a@example.org', phone: '+49' };
  expect((await realtime.post(keychain, { keys })).text).not.toContain('a@example.org');
  await realtime.control('faults', { kind: 'lookup_echo' });
  const { status, body } = await realtime.post(keychain, { keys });
  expect([status, body.message]).toEqual([404, expect.stringContaining('a@example.org')]);
  await realtime.control('faults', { kind: 'lookup_one_key' });
  expect((await realtime.post(keychain, { keys })).status).toBe(400);
  expect((await realtime.post(keychain, { keys: { email: 'a@example.org' } })).status).toBe(404);
});

it('real-time profiles may have links as a list or none, times of nine digits, and no ticked_at', async () => {
  const [id = ''] = await realtime.members('seg-gold');
  const usual = await realtime.profile(id);
  await realtime.control('faults', { kind: 'realtime_shape' });
  const { ticked_at: _, links, ...rest } = usual;
  const time = (text: string) => text.replace('Z', '000000Z');
  expect(await realtime.profile(id)).toEqual({
    ...rest,
    created_at: time(usual.created_at),
    updated_at: time(usual.updated_at),
    links: Object.entries(links).flatMap(([type, values]) => values.map((value) => ({ type, value }))),
  });
  await realtime.clearFaults();
  await realtime.control('faults', { kind: 'realtime_shape', links: 'absent', ticked_at: true, digits: 3 });
  expect(await realtime.profile(id)).toEqual({ ...rest, ticked_at: usual.ticked_at });
});

it('audit events of API keys have no e-mail address; a deployment may leave more out', async () => {
  const caller = await ManagementCaller.start();
  await caller.start('cg-1');
  const events = await caller.items('audit-events');
  const mine = events.filter(({ principal_id: id }) => String(id).startsWith('key-'));
  expect(mine.map((event) => 'principal_email' in event)).toEqual([false]);
  expect(events.filter((event) => 'principal_email' in event)).toHaveLength(events.length - 1);
  await caller.control('faults', { kind: 'audit_sparse' });
  const names = new Set((await caller.items('audit-events')).flatMap((event) => Object.keys(event)));
  expect(['principal_email', 'session_id', 'user_agent'].filter((name) => names.has(name))).toEqual([]);
});

it('a window of ingest jobs that begins before the days that are kept may be empty, or refused', async () => {
  const caller = await ManagementCaller.start();
  const window = (days: number) => {
    const from = caller.clock.now() - days * dayMs;
    return `/api/ingest/jobs?created_from=${iso(from)}&created_to=${iso(from + 5 * dayMs)}`;
  };
  expect((await caller.read(window(20))).data.length).toBeGreaterThan(0);
  await caller.control('faults', { kind: 'ingest_forgets' });
  expect((await caller.read(window(20))).data).toEqual([]);
  await caller.clearFaults();
  await caller.control('faults', { kind: 'ingest_forgets', older: 'refused' });
  expect([(await caller.get(window(20))).status, (await caller.get(window(6))).status]).toEqual([400, 200]);
});

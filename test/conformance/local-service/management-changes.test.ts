import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startLocalService } from '../../../src/local-service/service.js';
import { dayMs, type Item, iso, lists, ManagementCaller } from './management-caller.js';

type Reading = Record<string, Map<string, Item>>;

const keyed = (items: readonly Item[], key: string) => new Map(items.map((item) => [item[key] as string, item]));

/** Every item that a tenant can read. */
async function reading(caller: ManagementCaller): Promise<Reading> {
  const read: Reading = { ingest_jobs: keyed(await caller.jobs(), 'id') };
  for (const [list, key] of lists) read[list.replace(/[-/]/g, '_')] = keyed(await caller.items(list), key);
  return read;
}

function difference(before: Map<string, Item>, after: Map<string, Item>): Item {
  const [old, now] = [[...before.keys()], [...after.keys()]];
  const changed = now.filter(
    (id) => before.has(id) && JSON.stringify(before.get(id)) !== JSON.stringify(after.get(id)),
  );
  return {
    inserted: now.filter((id) => !before.has(id)).length,
    updated: changed.length,
    deleted: old.filter((id) => !after.has(id)).length,
    total: after.size,
  };
}

async function newEvents(caller: ManagementCaller, act: () => Promise<unknown>): Promise<Item[]> {
  const before = keyed(await caller.items('audit-events'), 'event_id');
  await act();
  return (await caller.items('audit-events')).filter(({ event_id: id }) => !before.has(id));
}

describe('/_control/change', () => {
  it.each([1, 2, 7])('of %i days reports for each list what two full readings show', async (days) => {
    const caller = await ManagementCaller.start();
    await caller.as('nightly', { tenant: 'acme-sb-1' });
    // Twice, since the first days also end the runs that were unfinished before them.
    for (const _ of ['first', 'second']) {
      caller.clock.jump(dayMs);
      const before = await reading(caller);
      const { management } = (await caller.control('change', { days })).body;
      const after = await reading(caller);
      const shown = Object.keys(after).map((list) => [
        list,
        difference(before[list] ?? new Map(), after[list] ?? new Map()),
      ]);
      expect(management).toEqual(Object.fromEntries(shown));
      // A production tenant also sees the events of its sandbox.
      expect(management.audit_events.inserted).toBe(2 * 40 * days);
      expect(management.workflow_runs).toMatchObject({ inserted: 2 * days, updated: 1, deleted: 0 });
      expect(management.campaigns.inserted).toBeGreaterThan(0);
    }
  });

  it('adds events and runs just before the present, none in the future', async () => {
    const caller = await ManagementCaller.start();
    caller.clock.jump(dayMs);
    await caller.control('change', { days: 3 });
    const now = iso(caller.clock.now());
    const times = [
      ...(await caller.items('audit-events')).map(({ happened_at: at }) => at),
      ...(await caller.items('workflow/runs')).flatMap(({ created_at: from, ended_at: to }) => [from, to ?? from]),
    ];
    expect(times.filter((at) => at > now)).toEqual([]);
    expect(await caller.items(`audit-events?happened_from=${iso(caller.clock.now() - 1000)}`)).toHaveLength(120);
  });

  it('changes the data of every tenant, and reports the named one', async () => {
    const caller = await ManagementCaller.start();
    const sandbox = await caller.as('nightly', { tenant: 'acme-sb-1' });
    caller.clock.jump(dayMs);
    const before = await reading(sandbox);
    const { management } = (await caller.control('change', { tenant: 'acme-sb-1' })).body;
    const after = await reading(sandbox);
    for (const list of Object.keys(after)) {
      expect([list, management[list]]).toEqual([list, difference(before[list] as never, after[list] as never)]);
    }
    expect(management.audit_events.inserted).toBe(40);
  });
});

describe('audit events', () => {
  it('record that an API key has started and stopped workflows', async () => {
    const caller = await (await ManagementCaller.start()).as('nightly', {});
    let id = '';
    const events = await newEvents(caller, async () => {
      id = (await caller.start('cg-slow')).id;
      caller.clock.jump(1);
      await caller.stop(id);
      // A repeated stop and a refused request do nothing, so that they add no event.
      await caller.stop(id);
      await caller.post('/api/workflow/runs', { config_id: 'cg-none' });
    });
    expect(events.map(({ event_type: type }) => type)).toEqual([
      ':service.workflow.run/started',
      ':service.workflow.run/stopped',
    ]);
    for (const event of events) {
      expect(event).toMatchObject({
        principal_name: 'nightly',
        object_id: id,
        object_name: 'Full history reload',
        tenant: 'acme',
        tenant_family: 'acme',
        origin_ip: expect.stringMatching(/^(127\.0\.0\.1|::1)$/),
      });
    }
    expect(events[0]?.happened_at < events[1]?.happened_at).toBe(true);
  });

  it('record changes of keys and tokens', async () => {
    const caller = await ManagementCaller.start();
    const events = await newEvents(caller, async () => {
      await caller.control('keys', { action: 'create', name: 'extra' });
      for (const action of [
        { action: 'issue' },
        { action: 'issue', rotate: true },
        { action: 'drop' },
        { action: 'revoke', which: 'old' },
      ]) {
        caller.clock.jump(1);
        await caller.control('keys', { key: 'extra', ...action });
      }
    });
    expect(events.map(({ event_type: type }) => type.replace(':service.api-key/', ''))).toEqual([
      'created',
      'token-issued',
      'secret-rotated',
      'tokens-dropped',
      'tokens-revoked',
    ]);
    expect(new Set(events.map(({ object_name: name }) => name))).toEqual(new Set(['extra']));
  });

  it('of a sandbox show in production, and not the other way round', async () => {
    const caller = await ManagementCaller.start();
    const sandbox = await caller.as('nightly', { tenant: 'acme-sb-7' });
    const stranger = await caller.as('nightly-too', { tenant: 'another' });
    const run = await sandbox.start('cg-1');
    await caller.start('cg-1');
    const tenantsOf = async (by: ManagementCaller) =>
      new Set((await by.items('audit-events')).map(({ tenant }) => tenant));
    expect(await tenantsOf(caller)).toEqual(new Set(['acme', 'acme-sb-7']));
    expect(await tenantsOf(sandbox)).toEqual(new Set(['acme-sb-7']));
    expect(await tenantsOf(stranger)).toEqual(new Set(['another']));
    const seen = (await caller.items('audit-events')).find(({ object_id: id }) => id === run.id);
    expect(seen).toMatchObject({ tenant: 'acme-sb-7', tenant_family: 'acme' });
  });
});

describe('a sandbox', () => {
  it('has its own runs, jobs and campaigns', async () => {
    const caller = await ManagementCaller.start();
    const sandbox = await caller.as('nightly', { tenant: 'acme-sb-7' });
    const run = await sandbox.start('cg-slow');
    expect(run.tenant).toBe('acme-sb-7');
    for (const [one, other] of [
      [caller, sandbox],
      [sandbox, caller],
    ] as const) {
      const theirs = new Set((await other.items('workflow/runs')).map(({ id }) => id));
      const ours = await one.items('workflow/runs');
      expect(ours.filter(({ id }) => theirs.has(id))).toEqual([]);
      expect(ours.length).toBeGreaterThan(0);
    }
    expect((await caller.get(`/api/workflow/runs/${run.id}`)).status).toBe(404);
    expect((await caller.stop(run.id)).status).toBe(404);
    expect((await sandbox.stop(run.id)).status).toBe(200);
    expect(await caller.items('campaigns')).not.toEqual(await sandbox.items('campaigns'));
  });
});

describe('a restart with a state file', () => {
  it('keeps everything that can be read, and runs continue', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-management-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const stateFile = join(folder, 'state.json');
    const options = { profiles: 10, rateLimits: { management: 0 }, stateFile };
    const first = await ManagementCaller.start(options);
    const sandbox = await first.as('nightly', { tenant: 'acme-sb-1' });
    first.clock.jump(dayMs);
    await first.control('change', { days: 2 });
    const [going, stopped] = [
      await first.start('cg-slow', { range_from: '2025-12-01', range_to: '2025-12-31' }),
      await sandbox.start('cg-slow'),
    ];
    first.clock.jump(5000);
    await sandbox.stop(stopped.id);
    await first.control('audit', { events: [{ happened_at: '2025-12-24T00:00:00Z' }] });
    first.clock.jump(5000);
    const before = [await reading(first), await reading(sandbox)];
    await first.service.close();

    const service = await startLocalService({ ...options, clock: first.clock });
    onTestFinished(() => service.close());
    const token = (by: ManagementCaller) => String(by.headers.authorization).replace('Bearer ', '');
    const second = new ManagementCaller(first.clock, service, token(first));
    const secondSandbox = new ManagementCaller(first.clock, service, token(sandbox), 'acme-sb-1');
    expect([await reading(second), await reading(secondSandbox)]).toEqual(before);
    expect((await second.run(going.id)).state).toBe('in progress');
    expect((await secondSandbox.run(stopped.id)).state).toBe('stopped');
    expect((await second.stop(going.id)).status).toBe(200);
    expect((await second.start('cg-1')).id).not.toBe(going.id);
  });

  it('keeps nothing without one, except the data that follow from the seed', async () => {
    const first = await ManagementCaller.start();
    const { id } = await first.start('cg-1');
    const campaigns = await first.items('campaigns');
    const second = await ManagementCaller.start();
    expect(await second.items('campaigns')).toEqual(campaigns);
    expect((await second.get(`/api/workflow/runs/${id}`)).status).toBe(404);
  });
});

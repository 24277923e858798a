import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import eventStream from '../../../connectors/event_stream/index.js';
import { ServiceClient } from '../../../src/api/client.js';
import * as realtime from '../../../src/api/realtime-api.js';
import { systemClock } from '../../../src/core/clock.js';
import { Secret } from '../../../src/core/secret.js';
import { serviceAccess } from '../../../src/engine/open-engine.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { openBudget } from '../../../src/rate-limit/open-budget.js';
import type { OutgoingRecord, RecordResult, ServiceAccess } from '../../../src/sdk/index.js';
import { membersOf } from '../../../src/sdk/template/values.js';
import { requestControl } from '../../fixtures/control.js';
import { streams, write } from '../../fixtures/json-model.js';
import { type Driven, deliver, openRecords, someRecords } from '../../fixtures/record-driver.js';
import { serviceOptions } from '../../unit/api/scripted-service.js';

let service: LocalService;
const clients: ServiceClient[] = [];
const notices: string[] = [];
let driven: Driven | undefined;
beforeAll(async () => {
  // Typed, so that the service shows which type each value of an event has.
  service = await startLocalService({ port: 0, profiles: 1000, attributes: 'typed' });
});
afterAll(async () => {
  for (const client of clients) await client.close();
  await service.close();
});
afterEach(async () => {
  await driven?.close();
  driven = undefined;
  notices.length = 0;
  await requestControl(service, 'faults', { method: 'DELETE' });
});

async function control<T>(path: string, body: object): Promise<T> {
  const response = await requestControl(service, path, { method: 'POST', body: JSON.stringify(body) });
  return (await response.json()) as T;
}

function clientWith(token: string): ServiceClient {
  const retry = { patienceMs: 1000, maxDelayMs: 20 };
  const auth = { type: 'token', token: new Secret(token) } as const;
  const client = new ServiceClient({
    service: serviceOptions(service.url, { auth, retry }),
    clock: systemClock,
    budget: openBudget(),
  });
  clients.push(client);
  return client;
}

/** The parts that the engine gives to connectors. */
function access(token = service.token): ServiceAccess {
  return serviceAccess(clientWith(token), (line) => notices.push(line));
}

async function open(options: Record<string, unknown>, service = access()): Promise<Driven> {
  driven = await openRecords(eventStream, { stream_id: 'evs-1', ...options }, service);
  return driven;
}

async function profileWith(email: string): Promise<realtime.RealtimeProfile | undefined> {
  const operation = realtime.lookupProfileOperation('col-1', { keys: { email } });
  const options = { signal: new AbortController().signal, meter: { requests: 0, retries: 0, throttled: 0, bytes: 0 } };
  return clientWith(service.token)
    .send(operation, realtime.readRealtimeProfile, options)
    .catch(() => undefined);
}

const emails = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}@example.org`);
const types = (results: ReadonlyMap<string, RecordResult>) => [...results.values()].map(({ type }) => type);

const body = {
  event_id: '{{_id}}',
  event_type: 'loyalty',
  keys: { email: '{{ email }}' },
  points: '{{points}}',
  attributes: {
    city: '{{city}}',
    greeting: 'Dear {{first_name}} of {{city}}, {{_op}} {{_key}}: {{points}}',
    tags: ['{{tags}}', 'fixed'],
    fixed: 7,
  },
};

describe('events', () => {
  it('change the profiles of the collection, each as the template says', async () => {
    const addresses = emails('template', 30);
    const records = someRecords(30, (index) => ({
      email: addresses[index],
      points: index,
      city: index === 0 ? null : 'Ulm',
      first_name: 'Ada "the" Great',
      tags: { deep: [1, 'x'] },
    }));
    const { destination } = await open({ body });
    expect(new Set(types(await deliver(destination, records, 50)))).toEqual(new Set(['acknowledged']));
    const found = await Promise.all(addresses.map(profileWith));
    expect(found.map((profile) => profile?.attributes?.points)).toEqual(addresses.map((_, index) => index));
    expect(found[0]?.attributes?.city).toBeNull();
    expect(found[7]?.attributes).toMatchObject({
      city: 'Ulm',
      greeting: 'Dear Ada "the" Great of Ulm, insert k-7: 7',
      tags: [{ deep: [1, 'x'] }, 'fixed'],
      fixed: 7,
    });
  });

  it('are the rows themselves without a template', async () => {
    const [email] = emails('whole', 1);
    const { destination } = await open({});
    await deliver(
      destination,
      someRecords(1, () => ({ keys: { email }, attributes: { city: 'Bonn' } })),
      50,
    );
    expect((await profileWith(email as string))?.attributes?.city).toBe('Bonn');
  });

  it('keep every value unchanged, with every digit of a number', async () => {
    const property = fc.asyncProperty(streams, async (records) => {
      const sent: string[] = [];
      const catching: ServiceAccess = {
        sendEvent: async (_, event) => {
          sent.push(event);
        },
      };
      for (const [index, members] of records.entries()) {
        const json = write({ kind: 'object', members: [...members] });
        expect([...membersOf(json)]).toEqual([...members].map(([name, value]) => [name, write(value)]));
        const placeholders = [...members.keys()].filter((name) => /^[^{}"\\]+$/.test(name));
        const template = { n: index, row: placeholders.map((name) => `{{ ["${name}"] }}`) };
        const { destination } = await openRecords(eventStream, { stream_id: 's', body: template }, catching);
        const [result] = await destination.send(
          [{ ...(someRecords(1)[0] as OutgoingRecord), json }],
          new AbortController().signal,
        );
        if (result?.type === 'refused') continue;
        const values = placeholders.map((name) =>
          ['_op'].includes(name) ? '"insert"' : write(members.get(name) ?? { kind: 'null' }),
        );
        expect(sent.at(-1)).toBe(`{"n":${index},"row":[${values.join(',')}]}`);
      }
    });
    await fc.assert(property, { numRuns: 60 });
  });

  it('arrive even if the service resets connections and is away for a while', async () => {
    await control('faults', { kind: 'reset', match: 'POST /prof/events', share: 0.3 });
    await control('faults', { kind: 'throttle', retry_after: 0, match: 'POST /prof/events', count: 3 });
    await control('faults', { kind: 'status', status: 503, match: 'POST /prof/events', after: 5, count: 30 });
    const addresses = emails('trouble', 40);
    // New ids: the stream must not have taken them before.
    const records = someRecords(40, (index) => ({ email: addresses[index], points: 10 })).map((record) => ({
      ...record,
      id: `f${record.id.slice(1)}`,
    }));
    const template = { event_id: '{{_id}}', event_type: 'loyalty', keys: body.keys, points: '{{points}}' };
    const { destination } = await open({ body: template });
    expect(new Set(types(await deliver(destination, records, 50)))).toEqual(new Set(['acknowledged']));
    const found = await Promise.all(addresses.map(profileWith));
    // Sent again, an event with an id counts once.
    expect(found.map((profile) => profile?.attributes?.points)).toEqual(addresses.map(() => 10));
  });

  it('that are too long are refused alone; one of the greatest allowed length is not', async () => {
    const overhead = Buffer.byteLength(someRecords(1, () => ({ text: '' }))[0]?.json ?? '');
    const lengths = [10, 65_536 - overhead, 65_537 - overhead, 10];
    const records = someRecords(4, (index) => ({ text: 'x'.repeat(lengths[index] as number) }));
    const { destination } = await open({});
    const results = await deliver(destination, records, 50);
    expect(types(results)).toEqual(['acknowledged', 'acknowledged', 'refused', 'acknowledged']);
    expect(results.get(records[2]?.id as string)).toMatchObject({
      reason: 'an event of 65537 bytes; the service takes 65536',
    });
  });

  it('that the service refuses are refused with its reason, the others arrive', async () => {
    const message = 'attribute not-a-date is no date';
    await control('faults', { kind: 'status', status: 400, message, match: 'POST /prof/events', after: 1, count: 1 });
    const records = someRecords(3, () => ({ text: 'not-a-date' }));
    const { destination } = await open({});
    const results = [...(await deliver(destination, records, 50)).values()];
    const refused = results.filter(({ type }) => type === 'refused') as { reason: string }[];
    expect([results.length, refused.length]).toEqual([3, 1]);
    expect(refused[0]?.reason).toMatch(/refused with 400: attribute .* is no date/);
    expect(refused[0]?.reason).not.toContain('not-a-date');
  });
});

describe('a stream', () => {
  it('that accepts no events now is asked again later', async () => {
    const { destination } = await open({ stream_id: 'evs-paused' });
    const results = await destination.send(someRecords(2), new AbortController().signal);
    expect(results.map(({ type }) => type)).toEqual(['again', 'again']);
    expect((results[0] as { reason: string }).reason).toContain('does not accept events now');
  });

  it('that drops events causes one notice', async () => {
    const { destination } = await open({ stream_id: 'evs-drop' });
    expect(new Set(types(await deliver(destination, someRecords(5), 50)))).toEqual(new Set(['acknowledged']));
    expect(notices).toEqual([expect.stringContaining('"evs-drop" takes events and drops them')]);
  });

  it.each([
    ['that is not there', { stream_id: 'nowhere' }, 'not_found', 'fatal'],
    ['of an id that no URL can carry', { stream_id: '..' }, 'invalid_id', 'fatal'],
  ])('%s ends the delivery', async (_, options, code, kind) => {
    const { destination } = await open(options);
    await expect(destination.send(someRecords(3), new AbortController().signal)).rejects.toMatchObject({ code, kind });
  });

  it('for which the key has no permission ends the delivery, and says which one is missing', async () => {
    const permissions = ['profile-collections:read'];
    await control('keys', { action: 'create', name: 'reader', tenant: service.tenantId, permissions });
    const { token } = await control<{ token: string }>('keys', { action: 'issue', key: 'reader', days: 1 });
    const { destination } = await open({}, access(token));
    await expect(destination.send(someRecords(3), new AbortController().signal)).rejects.toMatchObject({
      code: 'forbidden',
      kind: 'auth',
      hint: expect.stringContaining('profile-events:write (or streaming-ingest-api:write)'),
    });
  });

  it('accepts events by the other published permission too', async () => {
    const permissions = ['streaming-ingest-api:write'];
    await control('keys', { action: 'create', name: 'streamer', tenant: service.tenantId, permissions });
    const { token } = await control<{ token: string }>('keys', { action: 'issue', key: 'streamer', days: 1 });
    const { destination } = await open({}, access(token));
    const results = await destination.send(someRecords(3), new AbortController().signal);
    expect(results.map(({ type }) => type)).not.toContain('refused');
  });
});

describe('a template', () => {
  it('that names a column which the stream does not have is found before anything is sent', () => {
    const options = {
      streamId: 'evs-1',
      body: { keys: { email: '{{emial}}' } },
      collection: undefined,
      allowLoop: false,
    };
    expect(eventStream.checkColumns?.(options, { name: 'members', columns: ['id', 'email'] })).toEqual([
      {
        path: ['body', 'keys', 'email'],
        placeholder: 0,
        code: 'template_invalid',
        message: 'stream "members" has no column "emial" here; did you mean "email"?',
      },
    ]);
    expect(eventStream.checkColumns?.(options, { name: 'members', columns: ['emial'] })).toEqual([]);
  });
});

describe('a job that reads the collection which its events feed', () => {
  const reads = { name: 'vips', source: 'realtime_profiles', collection: 'col-1' };
  const members = { name: 'members', source: 'index_profiles' };
  const findings = (options: Record<string, unknown>, list: (typeof reads | typeof members)[]) =>
    eventStream.checkStreams?.(
      { streamId: 'evs-1', body: undefined, collection: undefined, allowLoop: false, ...options },
      list,
    ) ?? [];

  it('is refused, even if nothing says which one they feed', () => {
    expect(findings({ collection: 'col-1' }, [members, reads])[0]?.message).toContain('stream "vips"');
    expect(findings({}, [members, reads])[0]?.message).toContain('name their collection with `collection`');
  });

  it('is accepted if it reads another, or none, or is permitted', () => {
    expect(findings({ collection: 'col-2' }, [members, reads])).toEqual([]);
    expect(findings({}, [members])).toEqual([]);
    expect(findings({ collection: 'col-1', allowLoop: true }, [members, reads])).toEqual([]);
  });
});

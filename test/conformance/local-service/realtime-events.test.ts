import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { RealtimeCaller } from './realtime-caller.js';

let service: LocalService;
let caller: RealtimeCaller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 1000 });
  caller = new RealtimeCaller(service);
});
afterAll(() => service.close());
afterEach(() => caller.clearFaults());

const stream = '/prof/events/evs-1';

/** Sends bytes unchanged and reads until the head of a response is complete. */
async function raw(head: readonly string[], body = ''): Promise<string> {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  const sent = Object.entries(caller.headers).map(([name, value]) => `${name}: ${value}`);
  socket.write([`POST ${stream} HTTP/1.1`, 'host: local', ...sent, ...head, '', body].join('\r\n'));
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  while (!text.includes('\r\n\r\n')) await once(socket, 'data');
  socket.destroy();
  return text;
}

describe('POST /events/{stream-id} (specification, section 4.10) returns', () => {
  const event = { event_type: 'page_view', keys: { email: 'first@example.org' } };

  it('202 without a body to an event', async () => {
    const { status, text, headers } = await caller.post(stream, event);
    expect([status, text, headers.get('content-type')]).toEqual([202, '', null]);
    expect((await caller.post(stream, event, { 'content-type': 'Application/JSON; charset=utf-8' })).status).toBe(202);
  });

  it('204 if the stream drops events, and changes nothing', async () => {
    const before = await caller.total();
    const dropped = { keys: { email: 'dropped@example.org' } };
    expect((await caller.post('/prof/events/evs-drop', dropped)).status).toBe(204);
    expect(await caller.total()).toBe(before);
  });

  it.each(['', ' ', '[]', '42', 'null', '"text"', '{"a":', '[{}]'])('400 to %j', async (body) => {
    expect((await caller.post(stream, body)).status).toBe(400);
  });

  it('404 for an unknown stream', async () => {
    expect((await caller.post('/prof/events/evs-none', event)).status).toBe(404);
  });

  it('405 to another method, and names the allowed one', async () => {
    const { status, headers } = await caller.get(stream);
    expect([status, headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('409 if the stream does not accept events now', async () => {
    const { status, body } = await caller.post('/prof/events/evs-paused', event);
    expect(status).toBe(409);
    expect(body.message).toContain('does not accept');
  });

  it('411 without a length: in chunks, or with no body at all', async () => {
    const chunked = await raw(['content-type: application/json', 'transfer-encoding: chunked'], '2\r\n{}\r\n0\r\n\r\n');
    expect(chunked).toMatch(/^HTTP\/1\.1 411 /);
    expect(await raw([])).toMatch(/^HTTP\/1\.1 411 /);
  });

  it('413 to more than 64 KB, before the client has sent it', async () => {
    const fits = JSON.stringify({ keys: { email: 'big@example.org' }, attributes: { text: '' } });
    const largest = fits.replace('""', `"${'x'.repeat(64 * 1024 - fits.length)}"`);
    expect((await caller.post(stream, largest)).status).toBe(202);
    expect((await caller.post(stream, `${largest} `)).status).toBe(413);
    const type = 'content-type: application/json';
    expect(await raw([type, 'content-length: 900000'], '{"a":')).toMatch(/^HTTP\/1\.1 413 /);
    expect(await raw([type, 'content-length: 99000000000'], '{"a":')).toMatch(/^HTTP\/1\.1 413 .*connection: close/is);
  });

  it('413 to an ordinary client that sends much more, and the client can send the next request at once', async () => {
    expect((await caller.post(stream, `"${'x'.repeat(300_000)}"`)).status).toBe(413);
    expect((await caller.post(stream, event)).status).toBe(202);
  });

  it('415 to another content type than JSON', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp']) {
      expect((await caller.post(stream, event, { 'content-type': type })).status).toBe(415);
    }
  });

  it('503 if a fault demands it, without taking the event', async () => {
    await caller.control('faults', { kind: 'status', status: 503, retry_after: 1, match: stream, count: 1 });
    const late = { event_id: 'late', keys: { email: 'late@example.org' } };
    expect((await caller.post(stream, late)).status).toBe(503);
    await expect(caller.lookup(late.keys)).rejects.toThrow('404');
    await caller.event(late);
    expect((await caller.lookup(late.keys)).attributes).toEqual({});
  });
});

describe('an event', () => {
  it('makes a profile if no profile has its keys; the profile can be found at once by id and by each key', async () => {
    const before = await caller.total();
    const keys = { email: 'new@example.org', phone: '+4912345', member: '7' };
    await caller.event({ event_type: 'signup', keys, attributes: { city: 'Ulm', tags: ['a'] } });
    const made = await caller.lookup(keys);
    expect(made.links).toEqual({ email: ['new@example.org'], phone: ['+4912345'], member: ['7'] });
    expect(made.attributes).toEqual({ city: 'Ulm', tags: '["a"]' });
    expect(made.created_at).toBe(made.updated_at);
    expect(await caller.profile(made.profile_id)).toEqual(made);
    expect(await caller.total()).toBe(before + 1);
  });

  it('finds a profile by key or id, merges its attributes, and moves its times', async () => {
    const [id] = (await caller.members('seg-gold')) as [string];
    const before = await caller.profile(id);
    await caller.event({ keys: { loyalty_id: before.links.loyalty_id?.[0] }, attributes: { city: null, nick: 'A' } });
    const once = await caller.profile(id);
    const { city: _, ...kept } = before.attributes;
    expect(once).toEqual({
      ...before,
      attributes: { ...kept, nick: 'A' },
      updated_at: once.updated_at,
      ticked_at: once.ticked_at,
    });
    expect(once.updated_at > before.updated_at && once.ticked_at > before.ticked_at).toBe(true);
    await caller.event({ profile_id: id, attributes: { nick: 'B' } });
    const twice = await caller.profile(id);
    expect(twice.attributes.nick).toBe('B');
    expect(twice.updated_at > once.updated_at).toBe(true);
  });

  it('counts purchases, page views and points; unknown fields become attributes only inside `attributes`', async () => {
    const keys = { email: 'counts@example.org' };
    await caller.event({ event_type: 'purchase', keys, amount: 19.99, occurred_at: '2026-01-02T03:04:05Z', odd: 1 });
    await caller.event({ event_type: 'purchase', keys, amount: 0.01, occurred_at: '2026-01-03T03:04:05Z' });
    await caller.event({ event_type: 'page_view', keys });
    await caller.event({ event_type: 'loyalty', keys, points: 30 });
    await caller.event({ event_type: 'something else', keys, attributes: { odd: { er: true } } });
    expect((await caller.lookup(keys)).attributes).toEqual({
      purchases: '2',
      total_spent: '20',
      page_views: '1',
      points: '30',
      last_purchase_at: '2026-01-03T03:04:05.000Z',
      odd: '{"er":true}',
    });
  });

  it('adds to the counts that a person has; an attribute that an event sets starts the count again', async () => {
    const id = (await caller.members('seg-vip'))[0] as string;
    const { purchases, total_spent: spent } = (await caller.profile(id)).attributes;
    await caller.event({ event_type: 'purchase', profile_id: id, amount: 100 });
    const after = (await caller.profile(id)).attributes;
    expect(after).toMatchObject({ purchases: String(Number(purchases) + 1) });
    expect(Number(after.total_spent)).toBeCloseTo(Number(spent) + 100, 2);
    await caller.event({ profile_id: id, attributes: { purchases: 5 } });
    await caller.event({ event_type: 'purchase', profile_id: id, amount: 1 });
    expect((await caller.profile(id)).attributes.purchases).toBe('6');
  });

  it('changes nothing if its id has come before, whatever its content', async () => {
    const event = { event_id: 'once', event_type: 'purchase', amount: 5, keys: { email: 'once@example.org' } };
    await caller.event(event);
    const first = await caller.lookup(event.keys);
    await caller.event({ ...event, amount: 7, attributes: { more: 1 } });
    expect(await caller.lookup(event.keys)).toEqual(first);
  });

  it('changes nothing if it belongs to no profile', async () => {
    const before = await caller.total();
    for (const event of [{}, { profile_id: 'p-none' }, { keys: {} }, { keys: ['a'] }, { keys: { email: null } }]) {
      await caller.event(event);
    }
    expect(await caller.total()).toBe(before);
  });

  it('gives its profile the keys that no profile has, and does not touch the keys of others', async () => {
    await caller.event({ keys: { email: 'one@example.org' } });
    await caller.event({ keys: { email: 'two@example.org' } });
    await caller.event({ keys: { email: ['one@example.org', 'two@example.org'], phone: '+1999' } });
    const one = await caller.lookup({ phone: '+1999' });
    expect(one.links).toEqual({ email: ['one@example.org'], phone: ['+1999'] });
    expect((await caller.lookup({ email: 'two@example.org' })).profile_id).not.toBe(one.profile_id);
  });

  it('keeps names with a meaning in JavaScript, such as __proto__', async () => {
    const text =
      '{"keys":{"email":"odd@example.org","__proto__":"k"},"attributes":{"__proto__":{"a":1},"constructor":2}}';
    expect((await caller.post(stream, text)).status).toBe(202);
    const { text: response } = await caller.get('/prof/lookup/col-1/keychain?email=odd%40example.org');
    expect(response).toContain('"attributes":{"__proto__":"{\\"a\\":1}","constructor":"2"}');
    expect(response).toContain('"__proto__":["k"]');
  });

  it('of another stream feeds another collection', async () => {
    await caller.event({ keys: { email: 'guest@example.org' } }, 'evs-2');
    expect((await caller.lookup({ email: 'guest@example.org' }, 'col-2')).collection_id).toBe('col-2');
    await expect(caller.lookup({ email: 'guest@example.org' })).rejects.toThrow('404');
  });

  it('is applied exactly once even if hundreds come at once, some of them twice', async () => {
    const before = await caller.total();
    const events = Array.from({ length: 300 }, (_, at) => ({
      event_id: `burst-${at % 250}`,
      event_type: 'purchase',
      amount: 1,
      keys: { email: `burst-${at % 10}@example.org` },
    }));
    await Promise.all(events.map((event) => caller.event(event)));
    expect(await caller.total()).toBe(before + 10);
    for (let one = 0; one < 10; one += 1) {
      const { attributes } = await caller.lookup({ email: `burst-${one}@example.org` });
      expect([attributes.purchases, attributes.total_spent]).toEqual(['25', '25']);
    }
  });
});

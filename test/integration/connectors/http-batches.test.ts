import { createHmac, timingSafeEqual, webcrypto } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import http from '../../../connectors/http/index.js';
import { CdsyncError, type OutgoingRecord, type RecordResult } from '../../../src/sdk/index.js';
import { type Driven, deliver, openRecords, someRecords } from '../../fixtures/record-driver.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';
import { type Received, Receiver } from '../../fixtures/webhook-server.js';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

let receiver: Receiver;
let driven: Driven | undefined;
beforeAll(async () => {
  receiver = await Receiver.open();
});
afterAll(() => receiver.close());
beforeEach(() => receiver.reset());
afterEach(async () => {
  await driven?.close();
  driven = undefined;
});

async function open(options: Record<string, unknown> = {}): Promise<Driven> {
  await driven?.close();
  driven = undefined;
  driven = await openRecords(http, { url: `http://127.0.0.1:${receiver.port}/hook?token=hidden-token`, ...options });
  return driven;
}

interface Sent {
  readonly id: string;
  readonly job: string;
  readonly destination: string;
  readonly records: readonly { readonly id: string; readonly key: string; readonly data: Record<string, unknown> }[];
}

const bodies = () => receiver.received.map(({ body }) => JSON.parse(body) as Sent);
const types = (results: ReadonlyMap<string, RecordResult>) => [...results.values()].map(({ type }) => type);
const respond = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

async function failure(records: readonly OutgoingRecord[] = someRecords(3)): Promise<CdsyncError> {
  const { destination } = await open();
  const error = await deliver(destination, records, 500).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CdsyncError);
  return error as CdsyncError;
}

/** Verifies as a receiver that knows only the Standard Webhooks page, with another implementation of HMAC. */
async function isGenuine(headers: Readonly<Record<string, string>>, body: string, key: Buffer): Promise<boolean> {
  const { subtle } = webcrypto;
  const imported = await subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  const [version, signature = ''] = (headers['webhook-signature'] ?? '').split(',');
  const signed = new TextEncoder().encode(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`);
  return version === 'v1' && subtle.verify('HMAC', imported, Buffer.from(signature, 'base64'), signed);
}

describe('a delivery to a receiver', () => {
  it('sends every record once, in order, with numbers digit for digit', async () => {
    const records = someRecords(250).map((record) => ({ ...record, json: '{"big":123456789012345678901,"low":1e-7}' }));
    const { destination } = await open({ headers: { 'X-Team': 'crm' } });
    expect(new Set(types(await deliver(destination, records, 500)))).toEqual(new Set(['acknowledged']));
    expect(bodies().map((body) => body.records.length)).toEqual([100, 100, 50]);
    expect(bodies().flatMap((body) => body.records.map(({ id }) => id))).toEqual(records.map(({ id }) => id));
    expect(bodies()[0]).toMatchObject({ job: 'nightly', destination: 'target' });
    expect(receiver.received[0]?.body).toContain('"data":{"big":123456789012345678901,"low":1e-7}');
    expect(receiver.received[0]).toMatchObject({
      path: '/hook?token=hidden-token',
      headers: { 'x-team': 'crm', 'content-type': 'application/json' },
    });
  });

  it('keeps to the allowed length, and refuses a record that alone is longer', async () => {
    const lengths = fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 30 });
    const property = fc.asyncProperty(lengths, async (sizes) => {
      receiver.reset();
      const records = someRecords(sizes.length, (index) => ({ text: 'ü'.repeat((sizes[index] as number) / 2) }));
      const { destination } = await open({ batch: { bytes: '2000', records: 7 } });
      const results = await deliver(destination, records, 500);
      for (const { body } of receiver.received) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(2_000);
      for (const { records: sent } of bodies()) expect(sent.length).toBeLessThanOrEqual(7);
      const acknowledged = records.filter(({ id }) => results.get(id)?.type === 'acknowledged');
      expect(bodies().flatMap((body) => body.records.map(({ id }) => id))).toEqual(acknowledged.map(({ id }) => id));
      for (const { id, json } of records)
        if (Buffer.byteLength(json) < 1_400) expect(results.get(id)?.type).toBe('acknowledged');
        else if (Buffer.byteLength(json) > 2_000) expect(results.get(id)?.type).toBe('refused');
    });
    await fc.assert(property, { numRuns: 40 });
  });

  it.each([
    ['a key in Base64', secret, Buffer.from(secret.slice(6), 'base64')],
    ['a plain-text key', 'a plain key of mine'.replaceAll(' ', '-'), Buffer.from('a-plain-key-of-mine')],
  ])('is signed so that a receiver that has the key can verify it: %s', async (_, signing_secret, key) => {
    const { destination } = await open({ signing_secret });
    await deliver(destination, someRecords(3), 500);
    const { headers, body } = receiver.received[0] as Received;
    expect(await isGenuine(headers, body, key)).toBe(true);
    expect(Math.abs(Date.now() / 1000 - Number(headers['webhook-timestamp']))).toBeLessThan(300);
    expect(await isGenuine(headers, body.replace('k-1', 'k-7'), key)).toBe(false);
    expect(await isGenuine({ ...headers, 'webhook-timestamp': '1700000000' }, body, key)).toBe(false);
    expect(await isGenuine(headers, body, Buffer.from('another key'))).toBe(false);
  });

  it("is verified by the five lines of the connector's page", async () => {
    const page = await readFile(join(import.meta.dirname, '../../../connectors/http/README.md'), 'utf8');
    const lines = /### Verifying a signature[\s\S]*?```js\n([\s\S]*?)```/.exec(page)?.[1];
    const names = ['headers', 'body', 'secret', 'createHmac', 'timingSafeEqual'];
    const verify = new Function(...names, `${lines}\nreturn genuine;`);
    const { destination } = await open({ signing_secret: secret });
    await deliver(destination, someRecords(3), 500);
    const { headers, body } = receiver.received[0] as Received;
    const isGenuine = (text: string, key: string, more = {}) =>
      verify({ ...headers, ...more }, text, key, createHmac, timingSafeEqual);
    expect(isGenuine(body, secret)).toBe(true);
    expect(isGenuine(`${body} `, secret)).toBe(false);
    expect(isGenuine(body, 'another-secret-of-mine')).toBe(false);
    expect(isGenuine(body, secret, { 'webhook-signature': undefined })).toBe(false);
  });

  it('has an idempotency key that the same records have again, and others do not', async () => {
    const { destination } = await open({ batch: { records: 2 } });
    await deliver(destination, someRecords(4), 500);
    await open({ batch: { records: 2 } }).then((again) => deliver(again.destination, someRecords(4), 500));
    const keys = receiver.received.map(({ headers }) => headers['idempotency-key']);
    expect(keys.slice(0, 2)).toEqual(keys.slice(2));
    expect(new Set(keys).size).toBe(2);
    expect(bodies().map(({ id }) => id)).toEqual(keys);
  });

  it('sends the credentials of the URL', async () => {
    const { destination } = await open({ url: `http://us%3Aer:p%40ss@127.0.0.1:${receiver.port}/` });
    await deliver(destination, someRecords(1), 500);
    const [scheme, login = ''] = (receiver.received[0]?.headers.authorization ?? '').split(' ');
    expect([scheme, Buffer.from(login, 'base64').toString()]).toEqual(['Basic', 'us:er:p@ss']);
  });
});

describe('a receiver that has trouble', () => {
  it.each([
    ['429 with Retry-After', (response: ServerResponse) => respond(response, 429, {}, { 'retry-after': '0.05' })],
    ['503', (response: ServerResponse) => respond(response, 503, {})],
    ['a reset', (response: ServerResponse) => response.socket?.resetAndDestroy()],
    [
      'a response that breaks off',
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-length': '100' }).write('{"results":');
        setImmediate(() => response.destroy());
      },
    ],
    ['no response in time', () => undefined],
  ])('is asked again after %s, with the same batch, until it has everything', async (_, trouble) => {
    receiver.reset((_received, response, count) => {
      if (count % 3 === 1) trouble(response);
      else response.writeHead(200).end();
    });
    const { destination } = await open({ batch: { records: 2 }, timeout: '500ms' });
    expect(new Set(types(await deliver(destination, someRecords(5), 500)))).toEqual(new Set(['acknowledged']));
    const all = bodies();
    expect(new Set(all.flatMap((body) => body.records.map(({ key }) => key))).size).toBe(5);
    expect(all[0]?.id).toBe(all[1]?.id);
  });

  it('gets nothing for as long as it asks, later records included', async () => {
    const date = new Date('2026-01-31T12:00:00Z');
    const until = new Date(date.getTime() + 90_000);
    receiver.reset((_, response) =>
      respond(response, 429, {}, { date: date.toUTCString(), 'retry-after': until.toUTCString() }),
    );
    const { destination } = await open({ batch: { records: 1 } });
    const results = await destination.send(someRecords(3), new AbortController().signal);
    expect(results.map((result) => result.type === 'again' && result.afterMs)).toEqual([90_000, 90_000, 90_000]);
    expect(receiver.received).toHaveLength(1);
  });

  it('does not delay a user who wants to stop', async () => {
    receiver.reset(() => stop.abort());
    const stop = new AbortController();
    const { destination } = await open();
    await expect(destination.send(someRecords(1), stop.signal)).rejects.toThrow();
  });

  it('that is not there is a reason to try again', async () => {
    const { destination } = await open({ url: 'http://127.0.0.1:1/' });
    const [result] = await destination.send(someRecords(1), new AbortController().signal);
    expect(result).toEqual({ type: 'again', reason: 'no response from 127.0.0.1:1 (ECONNREFUSED)' });
  });
});

describe('a receiver that does not want a record', () => {
  it('refuses that one alone, found by halves, and gets the others', async () => {
    const property = fc.asyncProperty(
      fc.integer({ min: 1, max: 40 }),
      fc.array(fc.nat(39)),
      async (count, unwanted) => {
        const taken: string[] = [];
        receiver.reset(({ body }, response) => {
          const keys = (JSON.parse(body) as Sent).records.map(({ key }) => key);
          if (keys.some((key) => unwanted.includes(Number(key.slice(2))))) return respond(response, 422, {});
          taken.push(...keys);
          return respond(response, 200, {});
        });
        const records = someRecords(count);
        const { destination } = await open();
        const results = await deliver(destination, records, 500);
        const refused = records.filter((_, index) => unwanted.includes(index));
        expect([...results].filter(([, { type }]) => type === 'refused').map(([id]) => id)).toEqual(
          refused.map(({ id }) => id),
        );
        expect(taken).toEqual(records.filter((record) => !refused.includes(record)).map(({ key }) => key));
      },
    );
    await fc.assert(property, { numRuns: 40 });
  });

  it('may say so of each record, with a reason, and have others sent again', async () => {
    receiver.reset(({ body }, response, count) => {
      const [first, second, third] = (JSON.parse(body) as Sent).records;
      if (count > 1) return respond(response, 200, { results: [] });
      const refused = { id: first?.id, status: 'refused', reason: 'no such customer', column: 'id' };
      const again = { id: second?.id, status: 'again', reason: 'busy', retry_after_ms: 5 };
      return respond(response, 200, { results: [refused, again, { id: third?.id, status: 'acknowledged' }], more: 1 });
    });
    const { destination } = await open();
    const results = [...(await deliver(destination, someRecords(4), 500)).entries()];
    const byKey = new Map(results.map(([id, result]) => [Number.parseInt(id, 16), result]));
    expect(byKey.get(0)).toEqual({ type: 'refused', reason: 'no such customer', column: 'id' });
    expect([1, 2, 3].map((index) => byKey.get(index)?.type)).toEqual(Array(3).fill('acknowledged'));
    expect(bodies().map(({ records }) => records.length)).toEqual([4, 1]);
  });

  it('and repeats its values adds no personal value to the reason', async () => {
    const data = () => ({ email: 'ada@example.org', phone: 15550001234, address: { street: 'Elm Row' } });
    receiver.reset((_, response) =>
      respond(response, 400, { message: 'k-0: ada@example.org, 15550001234\nof Elm Row is no member' }),
    );
    const { destination } = await open();
    const [result] = [...(await deliver(destination, someRecords(1, data), 500)).values()];
    const reason = result?.type === 'refused' ? result.reason : '';
    expect(reason).toMatch(/^the receiver answered 400 Bad Request: .* is no member$/);
    expect(reason).not.toMatch(/ada|1234|Elm/);
  });

  it('makes the delivery fail if its results cannot be read', async () => {
    receiver.reset((_, response) => respond(response, 200, { results: [{ id: 'x', status: 'nope' }] }));
    expect((await failure()).message).toMatch(/results that cannot be read: results\.0\.status/);
  });
});

describe('an endpoint that is wrong', () => {
  it.each([
    [401, 'destination_login', 'auth'],
    [403, 'destination_permission', 'auth'],
    [404, 'destination_refused', 'fatal'],
    [410, 'destination_refused', 'fatal'],
    [302, 'destination_refused', 'fatal'],
    [501, 'destination_refused', 'fatal'],
  ])('ends the delivery with %i, and shows nothing of the URL but its host', async (status, code, kind) => {
    receiver.reset((_, response) => response.writeHead(status, { location: 'https://other.example/' }).end('no'));
    const error = await failure();
    expect([error.code, error.kind, receiver.received.length]).toEqual([code, kind, 1]);
    expect(error.message).toContain(`127.0.0.1:${receiver.port} answered ${status}`);
    expect(`${error.message} ${error.hint}`).not.toMatch(/hidden-token|\/hook/);
  });

  it('causes an error without the URL if the URL is none', async () => {
    const error = await open({ url: 'https://user:secret%zz@host/' }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'destination_url', kind: 'configuration' });
    expect(String((error as Error).message)).not.toContain('secret');
  });
});

describe.skipIf(!openssl)('with a private authority', () => {
  let secure: Receiver;
  let folder: string;
  const tls = openssl ? selfSigned() : { key: Buffer.of(), cert: Buffer.of() };
  beforeAll(async () => {
    secure = await Receiver.open(tls);
    folder = await mkdtemp(join(tmpdir(), 'cdsync-ca-'));
    await writeFile(join(folder, 'ca.pem'), tls.cert);
  });
  afterAll(async () => {
    await secure.close();
    await rm(folder, { recursive: true });
  });

  it('a receiver is trusted by its file, and by nothing else', async () => {
    const url = `https://localhost:${secure.port}/`;
    const trusting = await open({ url, tls: { ca_file: join(folder, 'ca.pem') } });
    expect(types(await deliver(trusting.destination, someRecords(1), 500))).toEqual(['acknowledged']);
    const wary = await open({ url });
    await expect(deliver(wary.destination, someRecords(1), 500)).rejects.toMatchObject({
      code: 'destination_tls',
      hint: expect.stringContaining('ca_file'),
    });
    await expect(open({ url, tls: { ca_file: join(folder, 'gone.pem') } })).rejects.toMatchObject({
      kind: 'configuration',
    });
  });
});

import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  filterParameters,
  getIndexOperation,
  getProfileOperation,
  indexesPageOperation,
  profilesPageOperation,
  readIndexes,
} from '../../../src/api/profile-api.js';
import { sendEventOperation } from '../../../src/api/realtime-api.js';
import { encodeQuery, type Operation, pathSegment, requestTarget } from '../../../src/api/request.js';
import { packageVersion } from '../../../src/core/package-version.js';
import { readProfiles } from '../../fixtures/decoders.js';
import { emptyPage, givenToken, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const wellFormed = fc.string({ unit: 'binary' }).map((text) => text.toWellFormed());

describe('A request', () => {
  it('carries token, tenant, version and the accepted formats', async () => {
    const service = await scriptedService(emptyPage);
    const { send } = testClient(
      serviceOptions(service.baseUrl, { tenantHeader: 'brand-tenant', tenantId: 'acme-sb-2' }),
    );
    await send(indexesPageOperation({ limit: 5 }));
    const [request] = service.received;
    expect(request?.headers).toMatchObject({
      authorization: `Bearer ${givenToken}`,
      'brand-tenant': 'acme-sb-2',
      'api-version': '2025-07-31',
      accept: 'application/json',
      'accept-encoding': 'gzip',
      'user-agent': `cdsync/${packageVersion()}`,
      connection: 'keep-alive',
    });
    expect(`${request?.method} ${request?.url.pathname}${request?.url.search}`).toBe('GET /api/indexes?limit=5');
  });

  const operation = (changes: Partial<Operation>): Operation => ({
    group: 'management',
    method: 'GET',
    path: '/segments',
    label: 'GET /segments',
    ...changes,
  });

  it.each([
    ['management', {}, '/api/segments', '2024-04-01'],
    ['campaign drafts', { version: 'unstable' }, '/api/segments', 'unstable'],
    ['real-time', { group: 'realtime' }, '/prof/segments', undefined],
    ['without a version', { version: null }, '/api/segments', undefined],
  ] as const)('has the prefix and the version of its group: %s', async (_, changes, path, version) => {
    const service = await scriptedService({ status: 200, body: {} });
    await testClient(serviceOptions(service.baseUrl)).send(operation(changes));
    expect(service.received[0]?.url.pathname).toBe(path);
    expect(service.received[0]?.headers['api-version']).toBe(version);
  });

  it('keeps the path of the base URL, with or without a trailing slash', async () => {
    const service = await scriptedService(emptyPage);
    for (const end of ['', '/']) {
      await testClient(serviceOptions(`${service.baseUrl}/cds/eu${end}`)).send(indexesPageOperation({}));
    }
    expect(service.received.map(({ url }) => url.pathname)).toEqual(['/cds/eu/api/indexes', '/cds/eu/api/indexes']);
  });

  it('sends a body as JSON with its length', async () => {
    const service = await scriptedService({ status: 202 });
    const body = { kind: 'page view', path: '/ä' };
    const sent = await testClient(serviceOptions(service.baseUrl)).send(
      operation({ group: 'realtime', method: 'POST', path: '/events/s-1', body }),
    );
    expect(sent).toBeNull();
    const [request] = service.received;
    expect(JSON.parse(request?.body ?? '')).toEqual(body);
    expect(request?.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(JSON.stringify(body))),
    });
  });

  it('sends the text of an event unchanged, also numbers that JavaScript cannot hold', async () => {
    const service = await scriptedService({ status: 202 });
    const event = '{"spent": 12345678901234567890.10, "city": "Köln"}';
    await testClient(serviceOptions(service.baseUrl)).send(sendEventOperation('s-1', event));
    expect(service.received[0]?.body).toBe(event);
    expect(service.received[0]?.headers).toMatchObject({ 'content-length': String(Buffer.byteLength(event)) });
  });

  it('uses as many connections as the concurrency allows, and uses them again', async () => {
    const ports = new Set<number | undefined>();
    const service = await scriptedService((response) => {
      ports.add(response.socket?.remotePort);
      response.end('{"data":[]}');
    });
    const { send, meter } = testClient(serviceOptions(service.baseUrl, { concurrency: 3 }));
    await Promise.all(Array.from({ length: 40 }, () => send(indexesPageOperation({}))));
    expect(ports.size).toBe(3);
    expect(meter).toEqual({ requests: 40, retries: 0, throttled: 0, bytes: 40 * 11 });
  });
});

describe('Encoding', () => {
  it('carries any filter name and any value', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(wellFormed, wellFormed)), wellFormed, (filter, nextToken) => {
        const target = requestTarget(profilesPageOperation({ indexId: 'i', filter, nextToken, limit: 7 }));
        const { searchParams } = new URL(target, 'http://service');
        const rest =
          nextToken === ''
            ? [['limit', '7']]
            : [
                ['limit', '7'],
                ['next_token', nextToken],
              ];
        expect([...searchParams]).toEqual([...filter.map(([name, value]) => [`filter[${name}]`, value]), ...rest]);
      }),
    );
  });

  it('carries any id as one segment of the path', () => {
    fc.assert(
      fc.property(wellFormed, (id) => {
        fc.pre(id !== '' && id !== '.' && id !== '..');
        const { pathname } = new URL(`http://service${requestTarget(getProfileOperation('i', id))}`);
        expect(decodeURIComponent(pathname.split('/').at(-1) ?? '')).toBe(id);
        expect(pathname.split('/')).toHaveLength(6);
      }),
    );
  });

  it.each(['', '.', '..'])('refuses "%s" as an id: it would address something else', (id) => {
    expect(() => pathSegment(id)).toThrow(expect.objectContaining({ code: 'invalid_id' }));
  });

  it.each([
    ['a[b]', 'x&y=z', 'filter%5Ba%5Bb%5D%5D=x%26y%3Dz'],
    ['plus+', '1+1 %', 'filter%5Bplus%2B%5D=1%2B1%20%25'],
    ['', '', 'filter%5B%5D='],
    ['größe', '✓', 'filter%5Bgr%C3%B6%C3%9Fe%5D=%E2%9C%93'],
  ])('writes filter %j of %j', (name, value, expected) => {
    expect(encodeQuery(filterParameters([[name, value]]))).toBe(expected);
  });

  it('sends a lone surrogate as U+FFFD instead of failing', () => {
    expect(encodeQuery([['a', '\ud800']])).toBe('a=%EF%BF%BD');
    expect(pathSegment('\udc00')).toBe('%EF%BF%BD');
  });

  it('never sends an empty or null token, nor a total that was not asked for', () => {
    for (const nextToken of ['', null]) {
      expect(requestTarget(indexesPageOperation({ nextToken, withTotal: false }))).toBe('/api/indexes');
    }
    expect(requestTarget(indexesPageOperation({ withTotal: true }))).toBe('/api/indexes?with_total=true');
    expect(requestTarget(getIndexOperation('a/b'))).toBe('/api/indexes/a%2Fb');
  });
});

describe('Decoding', () => {
  it('takes an absent, an empty and a null token as the end of the list, and keeps unknown fields', () => {
    const item = { id: 'i-1', name: 'members', shade: 'blue' };
    for (const end of [{}, { next_token: '' }, { next_token: null }]) {
      const page = readIndexes(Buffer.from(JSON.stringify({ data: [item], ...end, more: 1 })));
      expect(page).toEqual({ data: [item], nextToken: null, total: null });
    }
    expect(readProfiles(Buffer.from('{"data":[],"next_token":"t","total":3}'))).toEqual({
      data: [],
      nextToken: 't',
      total: 3,
    });
  });

  it.each(['{}', '{"total":0}', '{"data":null}', '{"data":[],"errors":[],"status":"ok"}'])(
    'takes %s as an empty page',
    (text) => {
      expect(readIndexes(Buffer.from(text))).toMatchObject({ data: [], nextToken: null });
    },
  );

  it.each([
    '{"data":{}}',
    '{"items":[]}',
    '{"data":[],"status":500}',
    '{"data":[],"errors":[{"code":7}]}',
    '{"data":[],"success":false}',
    '{"error":"x"}',
    '[]',
    '{"data":[{}]}',
    '{"data":[],"next_token":1}',
    '{"data":[',
    '',
  ])('calls %s malformed without repeating it', (text) => {
    expect(() => readIndexes(Buffer.from(text))).toThrow(expect.objectContaining({ code: 'malformed_response' }));
  });

  it('inflates gzip, and counts the bytes after it', async () => {
    const text = JSON.stringify({ data: [{ id: 'x'.repeat(100_000) }] });
    const service = await scriptedService((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(gzipSync(text));
    });
    const { send, meter } = testClient(serviceOptions(service.baseUrl));
    expect(await send(indexesPageOperation({}))).toEqual(JSON.parse(text));
    expect(meter).toEqual({ requests: 1, retries: 0, throttled: 0, bytes: text.length });
  });

  it('gives the decoder the whole body as bytes, with status and headers', async () => {
    const text = JSON.stringify({ data: ['é'.repeat(300_000)] });
    const service = await scriptedService((response) => {
      response.writeHead(200, { date: 'Sat, 21 Nov 2026 05:00:00 GMT' });
      response.end(text);
    });
    const { client, meter, abort } = testClient(serviceOptions(service.baseUrl));
    const decode = (body: Buffer, { status, headers }: { status: number; headers: Record<string, unknown> }) => [
      Buffer.isBuffer(body) && body.equals(Buffer.from(text)),
      status,
      headers.date,
    ];
    const reply = await client.send(indexesPageOperation({}), decode, { signal: abort.signal, meter });
    expect(reply).toEqual([true, 200, 'Sat, 21 Nov 2026 05:00:00 GMT']);
  });

  it('rethrows an error that a decoder throws on purpose, without asking again', async () => {
    const service = await scriptedService(emptyPage);
    const { client, meter, abort } = testClient(serviceOptions(service.baseUrl));
    const decode = () => {
      throw new RangeError('mine');
    };
    await expect(client.send(indexesPageOperation({}), decode, { signal: abort.signal, meter })).rejects.toThrow(
      'mine',
    );
    expect(meter.requests).toBe(1);
  });
});

describe('Deprecated versions', () => {
  it('are reported once for each group and announcement', async () => {
    const ending = { deprecation: '@1767225600', sunset: 'Wed, 31 Dec 2027 23:59:59 GMT' };
    const service = await scriptedService({ status: 200, body: {}, headers: ending });
    const { client, send, notices } = testClient(serviceOptions(service.baseUrl));
    for (let n = 0; n < 3; n += 1) await send(indexesPageOperation({}));
    await send({ group: 'realtime', method: 'GET', path: '/collections/c/stats', label: 'GET stats' });
    service.script({ status: 200, body: {}, headers: { ...ending, sunset: 'Fri, 31 Dec 2028 23:59:59 GMT' } });
    await send(indexesPageOperation({}));
    const from = 'is deprecated from 2026-01-01T00:00:00.000Z';
    const [soon, later] = ['ends 2027-12-31T23:59:59.000Z', 'ends 2028-12-31T23:59:59.000Z'];
    const next = 'set `api_versions` to a newer one before then';
    expect(notices).toEqual([
      `warning: the Profile API version 2025-07-31 ${from} and ${soon}, the service says; ${next}`,
      `warning: the Real-time API ${from} and ${soon}, the service says`,
      `warning: the Profile API version 2025-07-31 ${from} and ${later}, the service says; ${next}`,
    ]);
    const deprecated = '2026-01-01T00:00:00.000Z';
    const profile = { api: 'profile', version: '2025-07-31', deprecated };
    expect(client.deprecations).toEqual([
      { ...profile, sunset: '2027-12-31T23:59:59.000Z' },
      { ...profile, api: 'realtime', version: null, sunset: '2027-12-31T23:59:59.000Z' },
      { ...profile, sunset: '2028-12-31T23:59:59.000Z' },
    ]);
  });

  it.each(['false', 'False', '?0', ''])('are none by `Deprecation: %s`', async (deprecation) => {
    const service = await scriptedService({ status: 200, body: {}, headers: { deprecation } });
    const { client, send, notices } = testClient(serviceOptions(service.baseUrl));
    await send(indexesPageOperation({}));
    expect([notices, client.deprecations]).toEqual([[], []]);
  });

  it.each([
    ['true', 'true', 'is deprecated, the service says'],
    ['soon', 'soon', 'is deprecated from soon, the service says'],
    ['version 2', 'version 2', 'is deprecated from version 2, the service says'],
    ['2026-02-30', '2026-02-30', 'is deprecated from 2026-02-30, the service says'],
  ])('may be announced without a date: %s', async (deprecation, deprecated, words) => {
    const service = await scriptedService({ status: 200, body: {}, headers: { deprecation } });
    const { client, send, notices } = testClient(serviceOptions(service.baseUrl));
    await send(indexesPageOperation({}));
    expect(notices[0]).toContain(words);
    expect(client.deprecations).toMatchObject([{ deprecated, sunset: null }]);
  });
});

import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { errorBody } from '../contract/published.js';
import { violations } from '../contract/shape.js';
import { Caller } from './caller.js';
import { RealtimeCaller } from './realtime-caller.js';

let service: LocalService;
let caller: Caller;
let realtime: RealtimeCaller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 100 });
  caller = new Caller(service);
  realtime = new RealtimeCaller(service);
});
afterAll(() => service.close());

/** Sends bytes unchanged; returns the parts of the response. */
async function raw(lines: readonly string[], body = '') {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1').on('error', () => undefined);
  socket.write([...lines, '', body].join('\r\n'));
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  for (;;) {
    const [head = '', content] = text.split('\r\n\r\n');
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (content !== undefined && content.length >= length) {
      socket.destroy();
      return { status: Number(head.split(' ')[1]), head, content: content.slice(0, length) };
    }
    await Promise.race([once(socket, 'data'), once(socket, 'close')]);
  }
}

const headers = () => Object.entries(caller.headers).map(([name, value]) => `${name}: ${value}`);

describe('what cannot be read as a request has an error body too (specification, section 7)', () => {
  const long = 'x'.repeat(20_000);
  const json = 'content-type: application/json';
  it.each<[string, number, () => string[]]>([
    ['a line that is no request', 400, () => ['hello']],
    ['an unknown method', 400, () => ['FOO /api/indexes HTTP/1.1', 'host: x']],
    ['a header without a colon', 400, () => ['GET /api/indexes HTTP/1.1', 'host: x', 'nonsense']],
    ['no Host', 400, () => ['GET /api/indexes HTTP/1.1', ...headers()]],
    ['two lengths', 400, () => ['POST /x HTTP/1.1', 'host: x', 'content-length: 1', 'content-length: 2']],
    ['a header of 20 kB', 431, () => ['GET /api/indexes HTTP/1.1', 'host: x', `a: ${long}`]],
    ['a path of 20 kB', 431, () => [`GET /api/indexes?a=${long} HTTP/1.1`, 'host: x']],
    ['an unknown expectation', 417, () => ['GET /api/indexes HTTP/1.1', 'host: x', 'expect: more']],
    [
      'a broken chunk',
      400,
      () => ['POST /prof/lookup/c/keychain HTTP/1.1', 'host: x', ...headers(), json, 'transfer-encoding: chunked'],
    ],
  ])('%s: %i', async (_, expected, lines) => {
    const { status, head, content } = await raw(lines(), 'zz\r\n');
    const body = JSON.parse(content);
    expect([status, body.status, violations(errorBody, body)]).toEqual([expected, expected, []]);
    expect(head).toMatch(/content-type: application\/json/i);
  });
});

describe('paths and methods', () => {
  it.each(['/', '/api', '/api/indexes/', '/indexes', '/api/indexes/a/b', '/api//profiles'])(
    '%s is 404',
    async (path) => {
      expect((await caller.get(path)).status).toBe(404);
    },
  );

  it.each(['POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS'])(
    '%s of a list is 405, with the methods that it has',
    async (method) => {
      const { status, headers: received } = await caller.send(method, '/api/indexes');
      expect([status, received.get('allow')]).toEqual([405, 'GET']);
    },
  );

  it('unknown parameters are ignored, and header names may have any case', async () => {
    const { 'service-tenant': tenant, ...rest } = caller.headers;
    const all = { ...rest, 'Service-Tenant': tenant } as Record<string, string>;
    expect((await fetch(`${service.url}/api/indexes?view=all`, { headers: all })).status).toBe(200);
  });
});

it('a whole URL in the request line names the same path', async () => {
  const { status, content } = await raw([`GET ${service.url}/api/indexes?limit=1 HTTP/1.1`, 'host: x', ...headers()]);
  expect([status, JSON.parse(content).data.length]).toEqual([200, 1]);
});

it('a 204 has no Content-Length', async () => {
  const event = ['content-type: application/json', 'content-length: 2'];
  const { status, head } = await raw(['POST /prof/events/evs-drop HTTP/1.1', 'host: x', ...headers(), ...event], '{}');
  expect([status, /content-length/i.test(head)]).toEqual([204, false]);
});

it('a request without any header is 401: the token is missing before the tenant is', async () => {
  for (const path of ['/api/indexes', '/api/segments', '/prof/collections/col-1/stats']) {
    const response = await fetch(service.url + path);
    expect([path, response.status, response.headers.get('www-authenticate')]).toEqual([path, 401, 'Bearer']);
  }
});

it('a token is refused in any other spelling of its base64url', async () => {
  const { token } = service;
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const others = [...alphabet].map((last) => token.slice(0, -1) + last).filter((other) => other !== token);
  for (const other of [...others, `${token}=`, token.replace('.', '=.')]) {
    expect((await caller.get('/api/indexes', { authorization: `Bearer ${other}` })).status).toBe(401);
  }
  expect((await caller.get('/api/indexes')).status).toBe(200);
});

describe.each([
  ['/prof/events/evs-1', 202],
  ['/prof/lookup/col-1/keychain', 404],
  ['/api/workflow/runs/', 201],
])('the body of POST %s', (path, accepted) => {
  const key = `"email":"${path.includes('lookup') ? 'absent' : 'body'}@example.com"`;
  const body = path.startsWith('/api') ? '"config_id":"cg-1"' : `"keys":{${key}}`;
  const send = async (content: string | Buffer, type: string | undefined = 'application/json') => {
    const all = { ...realtime.headers, 'api-version': '2024-04-01', ...(type === '' ? {} : { 'content-type': type }) };
    const init = { method: 'POST', headers: all as Record<string, string>, body: content };
    return (await fetch(service.url + path, init)).status;
  };

  it('is JSON by its type, or it is refused', async () => {
    expect(await send(Buffer.from(`{${body}}`))).toBe(accepted);
    const refused = path.includes('events') ? 415 : 400;
    for (const type of ['', 'application/x-www-form-urlencoded', 'application/jsonx']) {
      expect([type, await send(Buffer.from(`{${body}}`), type)]).toEqual([type, refused]);
    }
  });

  it('is 400 if it is missing, whatever its type, if it is not UTF-8, and if it is too deep', async () => {
    for (const type of ['', 'text/plain', 'application/json']) expect(await send('', type)).toBe(400);
    expect(await send(Buffer.from(`{${body.replace('c', '\xe9')}}`, 'latin1'))).toBe(400);
    const deep = `{${body},"attributes":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`;
    expect(await send(deep)).toBe(400);
  });
});

it('a lookup by a key of any name is a lookup', async () => {
  expect((await realtime.post('/prof/lookup/col-1/keychain', '{"keys":{"__proto__":"x"}}')).status).toBe(404);
});

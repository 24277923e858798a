import { createSecureServer } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { systemClock } from '../../../src/core/clock.js';
import { Secret } from '../../../src/core/secret.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';
import { turn } from './clocks.js';
import { deadPort, emptyPage, rawService, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});
const patient = { patienceMs: 300_000, maxDelayMs: 30_000 };
const once = { patienceMs: 0, maxDelayMs: 1 };

describe('A service that cannot be reached', () => {
  it('is reported 20 seconds after the first attempt, with the address and a hint', async () => {
    const port = await deadPort();
    const service = serviceOptions(`http://127.0.0.1:${port}`, { retry: patient });
    const { failure, meter, clock } = testClient(service);
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'unreachable', kind: 'retryable', status: undefined });
    expect(error.message).toBe(
      `GET /indexes could not reach 127.0.0.1:${port}: no connection (ECONNREFUSED), tried 6 times`,
    );
    expect(error.hint).toContain('cdsync serve');
    expect(meter).toMatchObject({ requests: 0, retries: 5 });
    expect(clock.monotonic()).toBe(20_000);
  });

  it('is reported as such if its host name is unknown', async () => {
    const { failure } = testClient(serviceOptions('https://cds.invalid', { retry: once }));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'unreachable' });
    expect(error.message).toContain('cds.invalid');
    expect(error.hint).toContain('base_url');
  });

  it('is waited for as long as after any failure once it has answered', async () => {
    const gone = await scriptedService(emptyPage);
    const { send, failure, meter, clock } = testClient(serviceOptions(gone.baseUrl, { retry: patient }));
    await send(list);
    await gone.stop();
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'service_unavailable' });
    expect(error.message).toContain('no connection (ECONNREFUSED)');
    expect(clock.monotonic()).toBe(300_000);
    expect(meter.requests).toBeLessThan(20);
  });

  it('holds no permit for a request that was never sent', async () => {
    const port = await deadPort();
    const rateLimits = { profile: 1, management: 1, realtime: 1 };
    const { failure, clock } = testClient(serviceOptions(`http://127.0.0.1:${port}`, { retry: patient, rateLimits }));
    await failure(list);
    // The pauses alone; for a permit it would wait 1001 ms.
    expect(clock.slept).toEqual([1_125, 2_250, 4_500, 9_000, 3_125]);
  });
});

describe('Timeouts', () => {
  const timeoutsMs = { connect: 300, firstByte: 100, body: 100, total: 20_000 };

  it('end a request whose response does not begin', async () => {
    const service = await rawService(() => undefined);
    const { failure } = testClient(serviceOptions(service.baseUrl, { retry: once, timeoutsMs }));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'timeout', kind: 'retryable' });
    expect(error.hint).toContain('timeouts_ms.first_byte');
  });

  it('end a body that stalls', async () => {
    const service = await rawService((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{"data"'));
    const { failure } = testClient(serviceOptions(service.baseUrl, { retry: once, timeoutsMs }));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'timeout' });
    expect(error.hint).toContain('timeouts_ms.body');
  });

  it('end a response that never stalls, but does not come to its end', async () => {
    const service = await rawService((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{');
      const drip = setInterval(() => socket.write(' '), 10);
      socket.on('close', () => clearInterval(drip));
    });
    const { failure, meter } = testClient(
      serviceOptions(service.baseUrl, {
        retry: { patienceMs: 10, maxDelayMs: 10 },
        timeoutsMs: { ...timeoutsMs, body: 5000, total: 200 },
      }),
    );
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'service_unavailable', kind: 'retryable' });
    expect(error.message).toContain('took longer than `timeouts_ms.total`, tried ');
    expect(error.hint).toContain('timeouts_ms.total');
    expect(meter.retries).toBe(meter.requests - 1);
  });

  it('end a login that never stalls, but does not come to its end', async () => {
    const service = await rawService((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{');
      const drip = setInterval(() => socket.write(' '), 10);
      socket.on('close', () => clearInterval(drip));
    });
    const auth = { type: 'client_credentials', clientId: 'id', clientSecret: new Secret('secret') } as const;
    const { failure } = testClient(
      serviceOptions(service.baseUrl, { auth, retry: once, timeoutsMs: { ...timeoutsMs, body: 5000, total: 200 } }),
    );
    expect(await failure(list)).toMatchObject({ code: 'timeout', hint: expect.stringContaining('timeouts_ms.total') });
  });

  it('end a connection that is never made', async () => {
    const service = await rawService(() => undefined);
    const baseUrl = service.baseUrl.replace('http:', 'https:');
    const { failure, meter } = testClient(serviceOptions(baseUrl, { retry: once, timeoutsMs }));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'timeout' });
    expect(error.hint).toContain('timeouts_ms.connect');
    expect(meter.requests).toBe(0);
  });

  it('are tried again', async () => {
    const reply = 'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}';
    const service = await rawService((socket, request) => request === 1 && socket.write(reply));
    const { send, meter } = testClient(serviceOptions(service.baseUrl, { timeoutsMs }));
    await send(list);
    expect(meter).toMatchObject({ requests: 2, retries: 1 });
  });
});

describe('Aborting', () => {
  it('ends a request under way at once, and never sends one that waits for a connection', async () => {
    const sockets: Socket[] = [];
    const service = await rawService((socket, request) => {
      sockets.push(socket);
      if (request > 0) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}');
    });
    const { client, failure, abort, meter } = testClient(serviceOptions(service.baseUrl, { concurrency: 1 }));
    const both = [failure(list), failure(list)];
    while (sockets.length === 0) await turn();
    abort.abort();
    for (const error of await Promise.all(both)) {
      expect(error).toMatchObject({ code: 'interrupted', kind: 'interrupted' });
    }
    const { signal } = new AbortController();
    await client.send(list, (body) => body, { signal, meter });
    expect(sockets).toHaveLength(2);
    expect(meter.requests).toBe(2);
  });

  it('ends a body under way at once', async () => {
    let begun = false;
    const service = await rawService((socket) => {
      begun = socket.write('HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{"data"');
    });
    const { failure, abort } = testClient(serviceOptions(service.baseUrl));
    const error = failure(list);
    while (!begun) await turn();
    await turn();
    abort.abort();
    expect(await error).toMatchObject({ code: 'interrupted' });
  });

  it('ends the wait before a retry at once', async () => {
    const service = await scriptedService({ status: 503, headers: { 'retry-after': '200' } });
    const { failure, abort, meter } = testClient(serviceOptions(service.baseUrl), { clock: systemClock });
    const error = failure(list);
    while (meter.retries === 0) await turn();
    abort.abort();
    expect(await error).toMatchObject({ code: 'interrupted' });
  });

  it('ends the wait for a permit at once', async () => {
    const service = await scriptedService(emptyPage);
    const rateLimits = { profile: 1, management: 1, realtime: 1 };
    const { send, failure, abort } = testClient(serviceOptions(service.baseUrl, { rateLimits }), {
      clock: systemClock,
    });
    await send(list);
    const error = failure(list);
    abort.abort();
    expect(await error).toMatchObject({ code: 'interrupted' });
    expect(service.received).toHaveLength(1);
  });

  it('before anything was sent sends nothing', async () => {
    const service = await scriptedService(emptyPage);
    const { failure, abort, meter } = testClient(serviceOptions(service.baseUrl));
    abort.abort();
    expect(await failure(list)).toMatchObject({ code: 'interrupted' });
    expect(meter.requests).toBe(0);
  });

  it('hundreds of requests at once causes no warning', async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    onTestFinished(() => {
      process.off('warning', warn);
    });
    const service = await scriptedService({ status: 503 });
    const retry = { patienceMs: 300000, maxDelayMs: 60_000 };
    const { failure, abort, meter } = testClient(serviceOptions(service.baseUrl, { retry }), { clock: systemClock });
    const errors = Array.from({ length: 200 }, () => failure(list));
    while (meter.retries === 0) await turn();
    abort.abort();
    for (const error of await Promise.all(errors)) expect(error).toMatchObject({ code: 'interrupted' });
    expect(warnings).toEqual([]);
  });

  it('by closing the client ends requests under way', async () => {
    const sockets: Socket[] = [];
    const service = await rawService((socket) => sockets.push(socket));
    const { client, failure } = testClient(serviceOptions(service.baseUrl));
    const error = failure(list);
    while (sockets.length === 0) await turn();
    await client.close();
    expect(await error).toMatchObject({ code: 'interrupted' });
    expect(await failure(list)).toMatchObject({ code: 'interrupted' });
  });

  it('by closing the client ends the waits for a retry and for a permit', async () => {
    const service = await scriptedService({ status: 429, headers: { 'retry-after': '200' } });
    const { client, failure, meter } = testClient(serviceOptions(service.baseUrl), { clock: systemClock });
    const retried = failure(list);
    while (meter.retries === 0) await turn();
    const waiting = failure(list);
    await client.close();
    expect(await retried).toMatchObject({ code: 'interrupted' });
    expect(await waiting).toMatchObject({ code: 'interrupted' });
    expect(meter.requests).toBe(1);
  });
});

describe('TLS', () => {
  it.skipIf(!openssl)(
    'is not trusted with a certificate that signs itself, and that is tried again for 20 seconds only',
    async () => {
      let requests = 0;
      const server = createHttpsServer(selfSigned(), (_, response) => {
        requests += 1;
        response.end('{"data":[]}');
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      onTestFinished(() => {
        server.close();
      });
      const { port } = server.address() as AddressInfo;
      const { failure, meter, clock } = testClient(serviceOptions(`https://localhost:${port}`, { retry: patient }));
      const error = await failure(list);
      expect(error).toMatchObject({ code: 'tls_error', kind: 'fatal' });
      expect(error.message).toContain('DEPTH_ZERO_SELF_SIGNED_CERT');
      expect(error.hint).toContain('NODE_EXTRA_CA_CERTS');
      expect(meter.requests).toBe(0);
      expect(clock.monotonic()).toBe(20_000);
      expect(requests).toBe(0);
    },
  );

  it('towards a service that speaks plain HTTP is reported as such', async () => {
    const service = await scriptedService(emptyPage);
    const { failure } = testClient(serviceOptions(service.baseUrl.replace('http:', 'https:'), { retry: patient }));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'tls_error' });
    expect(error.hint).toContain('scheme');
  });
});

describe('Headers of a response', () => {
  const sized = (bytes: number) =>
    scriptedService((response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'x-trace': 'x'.repeat(bytes) });
      response.end('{"data":[],"next_token":""}');
    });

  it('may be longer than those that Node takes', async () => {
    const { baseUrl } = await sized(40_000);
    expect(await testClient(serviceOptions(baseUrl)).send(list)).toEqual({ data: [], next_token: '' });
  });

  it('that are far too long are reported at once, as too long', async () => {
    const { baseUrl } = await sized(100_000);
    const { failure, meter } = testClient(serviceOptions(baseUrl, { retry: patient }));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'response_too_large', kind: 'fatal' });
    expect(error.message).toBe(
      'GET /indexes got an answer with headers of more than 65.5 kB (UND_ERR_HEADERS_OVERFLOW)',
    );
    expect(meter).toMatchObject({ retries: 0 });
  });
});

it('A token of 60 kB is refused at once, and nothing is sent', async () => {
  const { baseUrl } = await scriptedService(emptyPage);
  const auth = { type: 'token', token: new Secret('t'.repeat(60_000)) } as const;
  const { failure, meter } = testClient(serviceOptions(baseUrl, { auth, retry: patient }));
  const error = await failure(list);
  expect(error).toMatchObject({ code: 'unsendable_request', hint: expect.stringContaining('token') });
  expect(error.message).toBe('GET /indexes has headers of more than 32.8 kB, which no server takes');
  expect(meter).toMatchObject({ requests: 0, retries: 0 });
});

it.skipIf(!openssl)('A server that speaks HTTP/2 alone is reported as that, not as a certificate', async () => {
  const server = createSecureServer({ ...selfSigned(), allowHTTP1: false });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const error = await testClient(serviceOptions(`https://localhost:${port}`, { retry: once })).failure(list);
  expect(error).toMatchObject({ code: 'unreachable' });
  expect(error.message).toContain(`could not talk to localhost:${port}: it speaks HTTP/2 alone`);
  expect(error.hint).toContain('HTTP/1.1');
});

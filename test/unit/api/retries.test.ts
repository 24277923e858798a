import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { startWorkflowOperation } from '../../../src/api/management-api.js';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import type { Operation } from '../../../src/api/request.js';
import { outagePauseMs, singlePauseMs } from '../../../src/api/retry.js';
import { parseDurationMs } from '../../../src/core/quantities.js';
import { retryAfterMs } from '../../../src/core/retry-after.js';
import { emptyPage, type Reply, rawService, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});
const event: Operation = {
  group: 'realtime',
  method: 'POST',
  path: '/events/s-1',
  body: { kind: 'purchase' },
  label: 'POST /events/{id}',
};
const whole = '{"data":[],"next_token":""}';
const respond = (socket: Socket, headers: string, body: string | Buffer) => {
  socket.write(`HTTP/1.1 200 OK\r\n${headers}\r\n\r\n`);
  socket.write(body);
};
const respondWhole = (socket: Socket) => respond(socket, `content-length: ${whole.length}`, whole);

describe('Retried:', () => {
  it.each([429, 500, 502, 503, 504, 408, 520])('status %i', async (status) => {
    const service = await scriptedService({ status }, { status }, emptyPage);
    const { send, meter } = testClient(serviceOptions(service.baseUrl));
    await send(list);
    expect(meter).toMatchObject({ requests: 3, retries: 2, throttled: status === 429 ? 2 : 0 });
    expect(service.received).toHaveLength(3);
  });

  const halfGzip = gzipSync(whole).subarray(0, 20);
  it.each<[string, (socket: Socket) => void]>([
    ['a connection that ends before the response', (socket) => socket.end()],
    ['a reset before the response', (socket) => socket.resetAndDestroy()],
    ['a response that is not HTTP', (socket) => socket.end('220 mail.example ESMTP\r\n')],
    [
      'a body that ends before its length',
      (socket) => {
        respond(socket, 'content-length: 500', whole);
        socket.end();
      },
    ],
    [
      'a body that ends in the middle of its chunks',
      (socket) => {
        respond(socket, 'transfer-encoding: chunked', '5\r\n{"dat\r\n');
        socket.end();
      },
    ],
    [
      'a reset in the middle of the body',
      (socket) => {
        respond(socket, 'content-length: 500', whole);
        setImmediate(() => socket.resetAndDestroy());
      },
    ],
    [
      'a body that breaks off without a stated length',
      (socket) => {
        respond(socket, 'connection: close', whole.slice(0, -2));
        socket.end();
      },
    ],
    ['gzip that breaks off', (socket) => respond(socket, 'content-encoding: gzip\r\ncontent-length: 20', halfGzip)],
    [
      'a body that is called gzip but is not',
      (socket) => respond(socket, 'content-encoding: gzip\r\ncontent-length: 4', 'nope'),
    ],
    [
      'a compression that was not asked for',
      (socket) => respond(socket, 'content-encoding: br\r\ncontent-length: 4', 'nope'),
    ],
    ['a success without a body', (socket) => respond(socket, 'content-length: 0', '')],
    ['a success that is a web page', (socket) => respond(socket, 'content-length: 13', '<html></html>')],
    ['a success that is text', (socket) => respond(socket, 'content-length: 2', 'ok')],
    ['a success that is broken JSON', (socket) => respond(socket, 'content-length: 8', '{"data"}')],
  ])('%s', async (_, breakIt) => {
    const service = await rawService((socket, request) => (request < 2 ? breakIt(socket) : respondWhole(socket)));
    const { send, meter } = testClient(serviceOptions(service.baseUrl));
    expect(await send(list)).toEqual(JSON.parse(whole));
    expect(meter).toMatchObject({ requests: 3, retries: 2, throttled: 0 });
  });

  it('an idle connection that the service has closed in between', async () => {
    const service = await rawService((socket, request) => {
      respondWhole(socket);
      if (request === 0) socket.end();
    });
    const { send } = testClient(serviceOptions(service.baseUrl, { concurrency: 1 }));
    await send(list);
    expect(await send(list)).toEqual(JSON.parse(whole));
  });
});

describe('Not retried:', () => {
  it.each([400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 501, 505])('status %i', async (status) => {
    const service = await scriptedService({ status });
    const { failure, meter } = testClient(serviceOptions(service.baseUrl));
    expect(await failure(list)).toMatchObject({ status });
    expect(meter).toMatchObject({ requests: 1, retries: 0 });
  });

  it.each([500, 502, 504])('an event that may have been taken: %i', async (status) => {
    const service = await scriptedService({ status }, { status: 202 });
    const { failure, meter } = testClient(serviceOptions(service.baseUrl));
    expect(await failure(event)).toMatchObject({ status });
    expect(meter.requests).toBe(1);
  });

  it('an event whose connection broke after it was sent', async () => {
    const service = await rawService((socket) => socket.resetAndDestroy());
    const { failure, meter } = testClient(serviceOptions(service.baseUrl));
    expect(await failure(event)).toMatchObject({ code: 'connection_lost' });
    expect(meter.requests).toBe(1);
  });

  it.each([429, 503])('but an event that the service certainly did not take is: %i', async (status) => {
    const service = await scriptedService({ status }, { status: 202 });
    await testClient(serviceOptions(service.baseUrl)).send(event);
    expect(service.received).toHaveLength(2);
  });

  it('the start of a workflow, even after a 503', async () => {
    const service = await scriptedService({ status: 503 }, { status: 201, body: { id: 'r-1' } });
    const { failure, meter } = testClient(serviceOptions(service.baseUrl));
    expect(await failure(startWorkflowOperation({ configId: 'cg-1' }))).toMatchObject({ status: 503 });
    expect(meter.requests).toBe(1);
  });

  it('but a POST that only reads is', async () => {
    const service = await scriptedService({ status: 502 }, { status: 200, body: {} });
    const { send } = testClient(serviceOptions(service.baseUrl));
    await send({ ...event, idempotent: true });
    expect(service.received).toHaveLength(2);
  });
});

describe('Waits', () => {
  it('grow from one second to the longest delay, and end with the patience', async () => {
    const service = await scriptedService({ status: 503, body: { message: 'busy' } });
    const { failure, clock, meter } = testClient(serviceOptions(service.baseUrl), { random: () => 0 });
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'service_unavailable', kind: 'retryable', status: 503 });
    expect(error.message).toMatch(
      /^the Profile API has answered only with errors since 2026-01-01T00:00:00Z \(5 min 0 s\), \d+ requests\. Last: GET \/indexes failed with 503.*: busy$/,
    );
    expect(error.hint).toContain('retry.patience');
    expect(clock.slept.slice(0, 6)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000]);
    expect(clock.monotonic()).toBe(300_000);
    expect(meter.requests).toBeLessThan(20);
  });

  it('spread over a span', () => {
    for (const random of [0, 0.25, 0.999]) {
      const options = { maxDelayMs: 30_000, random: () => random };
      expect(singlePauseMs(1, options)).toBeCloseTo(200 * random);
      expect(singlePauseMs(2, options)).toBeCloseTo(400 * random);
      expect(outagePauseMs(0, options)).toBeCloseTo(1_000 + 250 * random);
      expect(outagePauseMs(9, options)).toBeLessThanOrEqual(30_000);
    }
  });

  it('begin again with a short one after 429s, which are no outage', async () => {
    const many: Reply[] = Array.from({ length: 30 }, () => ({ status: 429 }));
    const service = await scriptedService(...many, { status: 503 }, { status: 503 }, emptyPage);
    const { send, meter } = testClient(serviceOptions(service.baseUrl), { random: () => 0.001 });
    await send(list);
    expect(meter).toMatchObject({ requests: 33, throttled: 30 });
  });

  it('end after only 429s for as long as the patience', async () => {
    const service = await scriptedService({ status: 429, body: { message: 'slow down' } });
    const { failure, clock } = testClient(serviceOptions(service.baseUrl));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'too_many_requests', kind: 'retryable', status: 429 });
    expect(error.hint).toContain('rate_limits');
    expect(clock.monotonic()).toBeGreaterThanOrEqual(300_000);
    expect(clock.monotonic()).toBeLessThan(420_000);
  });

  it.each([429, 503])('honour Retry-After in full after a %i, beyond the longest delay too', async (status) => {
    const service = await scriptedService({ status, headers: { 'retry-after': '120' } }, emptyPage);
    const { send, clock } = testClient(serviceOptions(service.baseUrl));
    await send(list);
    expect(clock.slept).toEqual([120_000]);
  });

  it('honour Retry-After even if the jitter is zero', async () => {
    const service = await scriptedService({ status: 502, headers: { 'retry-after': '3' } }, emptyPage);
    const { send, clock } = testClient(serviceOptions(service.baseUrl), { random: () => 0 });
    await send(list);
    expect(clock.monotonic()).toBe(3_000);
  });

  it('hold up all requests while the service asks to wait', async () => {
    const service = await scriptedService({ status: 429, headers: { 'retry-after': '7' } }, emptyPage);
    const { send, clock } = testClient(serviceOptions(service.baseUrl));
    const first = send(list);
    const times: number[] = [];
    await first.then(() => times.push(clock.monotonic()));
    service.script({ status: 503, headers: { 'retry-after': '9' } }, emptyPage);
    const others = Promise.all([send(list), send(list)]);
    await others.then(() => times.push(clock.monotonic()));
    expect(times[0]).toBeGreaterThanOrEqual(7_000);
    expect(times[1]).toBeGreaterThanOrEqual(16_000);
  });

  it.each([
    [503, '7200', 'service_unavailable', '2 h 0 min'],
    [429, '7200', 'too_many_requests', '2 h 0 min'],
    [429, '9999999999', 'too_many_requests', '115741 days'],
    [503, '9'.repeat(400), 'service_unavailable', 'days'],
  ])('do not happen if a %i asks for more than the patience: %s', async (status, wait, code, words) => {
    const service = await scriptedService({ status, headers: { 'retry-after': wait } });
    const { failure, meter } = testClient(serviceOptions(service.baseUrl));
    const error = await failure(list);
    expect(error).toMatchObject({ code, kind: 'retryable', status });
    expect(error.hint).toMatch(new RegExp(`asks cdsync to wait .*${words}, longer than \`retry.patience\` allows`));
    expect(meter.requests).toBe(1);
  });

  it.each(['25d', '300d'])('continue after one 503 with a patience of %s', async (patience) => {
    const service = await scriptedService({ status: 503 }, emptyPage);
    const patienceMs = parseDurationMs(patience) as number;
    const { send, meter } = testClient(serviceOptions(service.baseUrl, { retry: { patienceMs, maxDelayMs: 1_000 } }));
    await send(list);
    expect(meter.requests).toBe(2);
  });

  it.each([
    ['120', {}, 120_000],
    [' 0 ', {}, 0],
    ['1.5', {}, 1_500],
    ['9'.repeat(400), {}, Number.MAX_SAFE_INTEGER],
    ['Sat, 21 Nov 2026 05:01:00 GMT', { date: 'Sat, 21 Nov 2026 05:00:30 GMT' }, 30_000],
    ['Sat, 21 Nov 2026 05:00:00 GMT', { date: 'Sat, 21 Nov 2026 05:00:30 GMT' }, 0],
    ['Sat, 21 Nov 2026 05:01:00 GMT', {}, 60_000],
    ['soon', {}, undefined],
    ['-5', {}, undefined],
    ['', {}, undefined],
  ])('reads Retry-After %j', (value, headers, expected) => {
    const ours = Date.parse('Sat, 21 Nov 2026 05:00:00 GMT');
    expect(retryAfterMs({ 'retry-after': value, ...headers }, ours)).toBe(expected);
  });

  it('are not read from responses without Retry-After', () => {
    expect(retryAfterMs({}, 0)).toBeUndefined();
    expect(retryAfterMs({ 'retry-after': ['1', '2'] }, 0)).toBeUndefined();
  });
});

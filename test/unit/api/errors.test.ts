import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/api/client.js';
import { startWorkflowOperation } from '../../../src/api/management-api.js';
import { singleError } from '../../../src/api/outage.js';
import { getProfileOperation, indexesPageOperation, profilesPageOperation } from '../../../src/api/profile-api.js';
import {
  collectionStatsOperation,
  lookupProfileByGetOperation,
  lookupProfileOperation,
} from '../../../src/api/realtime-api.js';
import type { Operation } from '../../../src/api/request.js';
import { type AttemptFailure, failedExchange, RequestAttempts } from '../../../src/api/retry.js';
import { exchangeFailure } from '../../../src/api/transport-error.js';
import { CdsyncError } from '../../../src/core/errors.js';
import { givenToken, type Reply, rawService, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});
const lookup: Operation = {
  group: 'realtime',
  method: 'POST',
  path: '/lookup/c-1/keychain',
  body: { keys: { email: 'ann@example.com' } },
  label: 'POST /lookup/{id}/keychain',
  idempotent: true,
  permissions: ['profile-collections:read', 'pii:read'],
};

async function failureOf(operation: Operation, reply: Reply) {
  const service = await scriptedService(reply);
  const retry = { patienceMs: 0, maxDelayMs: 1 };
  return testClient(serviceOptions(service.baseUrl, { retry })).failure(operation);
}

describe('An error of the service', () => {
  it.each([
    [400, 'bad_request', 'fatal'],
    [401, 'unauthorized', 'auth'],
    [403, 'forbidden', 'auth'],
    [404, 'not_found', 'fatal'],
    [405, 'method_not_allowed', 'fatal'],
    [409, 'conflict', 'fatal'],
    [413, 'bad_request', 'fatal'],
    [408, 'timeout', 'retryable'],
    [500, 'service_unavailable', 'retryable'],
    [501, 'service_unavailable', 'fatal'],
    [503, 'service_unavailable', 'retryable'],
  ])('of status %i has the code %s and the kind %s', async (status, code, kind) => {
    const body = { status, message: 'the reason', request_id: 'r-123', trace_id: 't-1' };
    const error = await failureOf(getProfileOperation('i', 'p'), { status, body });
    expect(error).toBeInstanceOf(ServiceError);
    expect(error).toBeInstanceOf(CdsyncError);
    expect(error).toMatchObject({
      code,
      kind,
      status,
      serviceMessage: 'the reason',
      requestId: 'r-123',
      traceId: 't-1',
    });
    const verb = status >= 500 ? 'failed with' : 'was refused with';
    expect(error.message).toBe(
      `GET /indexes/{id}/profiles/{id} ${verb} ${status}: the reason (request id r-123, trace id t-1)`,
    );
  });

  it('of status 404 says that real-time features may be off, if the request was for them', async () => {
    const hints = [lookup, collectionStatsOperation('c-1'), list].map(async (operation) => {
      return (await failureOf(operation, { status: 404 })).hint;
    });
    const off = expect.stringContaining('real-time features may not be enabled for this tenant');
    expect(await Promise.all(hints)).toEqual([off, off, undefined]);
  });

  it('repeats no key of a lookup, whatever the key is called', async () => {
    const keys = { limit: 'ann@example.com', after: '+4915112345', email: 'bob@example.com' };
    const message = 'no ann@example.com, bob@example.com, +4915112345';
    for (const operation of [lookupProfileOperation('c', { keys }), lookupProfileByGetOperation('c', { keys })]) {
      const error = await failureOf(operation, { status: 400, body: { message } });
      expect(inspect(error, { depth: 9 })).not.toMatch(/ann@|bob@|4915112345/);
      expect(error.message).toMatch(/: no .+, .+, /);
    }
  });

  it('needs neither a body nor the optional fields of one', async () => {
    expect((await failureOf(list, { status: 404 })).message).toBe('GET /indexes was refused with 404: Not Found');
    expect((await failureOf(list, { status: 400, body: { message: 'no' } })).message).toBe(
      'GET /indexes was refused with 400: no',
    );
    for (const body of [null, [], 7, { message: 7, request_id: {} }, { status: 'x' }]) {
      expect(await failureOf(list, { status: 400, body })).toMatchObject({
        message: 'GET /indexes was refused with 400: Bad Request',
        requestId: undefined,
      });
    }
  });

  it('shows nothing of the pages that proxies respond with', async () => {
    const page: Reply = (response) => {
      response.writeHead(502, { 'content-type': 'text/html' });
      response.end(`<html>${'<p>Bad gateway at 10.0.0.1</p>'.repeat(50)}</html>`);
    };
    expect((await failureOf(list, page)).message).toBe('GET /indexes failed with 502: Bad Gateway');
  });

  it('says so if the body is compressed in a way that was not asked for', async () => {
    const page: Reply = (response) => response.writeHead(200, { 'content-encoding': 'br' }).end('nope');
    const error = await failureOf(list, page);
    expect(error.message).toContain('cannot be read: it is compressed as br');
    expect(error).toMatchObject({ code: 'malformed_response', hint: expect.stringContaining('asks for gzip') });
  });

  it('cuts long messages and keeps them on one line, without control characters for the terminal', async () => {
    const message = `first\nsecond\u001b[31m \u2028${'long '.repeat(200)}`;
    const error = await failureOf(list, { status: 400, body: { message } });
    expect(error.serviceMessage).toMatch(/^first second \[31m {2}?long/);
    expect((error.serviceMessage as string).length).toBeLessThanOrEqual(301);
  });

  it('names the permissions that are needed, and that sandboxes have keys of their own', async () => {
    const { hint } = await failureOf(lookup, { status: 403 });
    expect(hint).toContain('profile-collections:read and pii:read');
    expect(hint).toContain('sandbox');
  });

  it('hints at the version if the service mentions it', async () => {
    for (const status of [400, 401]) {
      const { hint } = await failureOf(list, { status, body: { message: 'API version 2025-07-31 is not supported' } });
      expect(hint).toContain('`api_versions`');
    }
  });

  it('never shows the token, however the service repeats it', async () => {
    const message = `token ${givenToken} is not valid (Bearer ${encodeURIComponent(givenToken)})`;
    const error = await failureOf(list, { status: 401, body: { message, request_id: givenToken } });
    expect(error.message).toContain('token [secret] is not valid');
    expect(JSON.stringify({ ...error, message: error.message, stack: error.stack })).not.toContain(givenToken);
  });

  it('never shows the values of the request', async () => {
    const filter = [['email', 'ann@example.com']] as const;
    const message = 'no record has email ann@example.com (ann%40example.com)';
    for (const operation of [profilesPageOperation({ indexId: 'i', filter }), lookup]) {
      const error = await failureOf(operation, { status: 404, body: { message } });
      expect(error.serviceMessage).toBe('no record has email [secret] ([secret])');
    }
    const short = profilesPageOperation({
      indexId: 'i',
      filter: [
        ['name', 'Jo'],
        ['of', '-1)'],
        ['no', ''],
      ],
    });
    const shown = await failureOf(short, {
      status: 400,
      body: { message: 'Jo is no name, (Jo) with -1) is; John is' },
    });
    expect(shown.serviceMessage).toBe('[secret] is no name, ([secret]) with [secret] is; John is');
    const byQuery: Operation = { ...lookup, method: 'GET', query: [['email', 'ann@example.com']] };
    delete (byQuery as { body?: unknown }).body;
    expect((await failureOf(byQuery, { status: 404, body: { message } })).message).not.toContain('ann@');
  });
});

it('a request that HTTP cannot carry is refused without being sent', async () => {
  const service = await scriptedService({ status: 200, body: {} });
  const error = await testClient(serviceOptions(service.baseUrl, { tenantId: 'two\nlines' })).failure(list);
  expect(error).toMatchObject({ code: 'unsendable_request', kind: 'fatal' });
  expect(service.received).toEqual([]);
});

it('a response that is not HTTP is reported without its content', async () => {
  const service = await rawService((socket) => socket.end('ann@example.com is no status line\r\n\r\n'));
  const error = await testClient(serviceOptions(service.baseUrl, { retry: { patienceMs: 0, maxDelayMs: 1 } })).failure(
    list,
  );
  expect(error).toMatchObject({ code: 'connection_lost', kind: 'retryable' });
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('ann@');
});

describe('A refusal of this machine is no outage of the service', () => {
  const causes: readonly [error: Error, reason: string][] = [
    [Object.assign(new Error('connect EMFILE'), { code: 'EMFILE', syscall: 'connect' }), 'files'],
    [Object.assign(new Error('connect EPERM'), { code: 'EPERM', syscall: 'connect' }), 'refused'],
    [Object.assign(new Error('getaddrinfo EAI_FAIL'), { code: 'EAI_FAIL', syscall: 'getaddrinfo' }), 'dns'],
    [new RangeError('WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory'), 'memory'],
    [Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' }), 'lost'],
  ];
  for (const [cause, reason] of causes)
    it(`${cause.message}: ${reason}`, () => expect(exchangeFailure(cause, false).reason).toBe(reason));

  it('and is reported by its own code, however long it lasts', () => {
    const failure = exchangeFailure(Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }), false);
    const failed = failedExchange(failure, { label: 'GET /indexes', host: 'cds', sent: false, idempotent: true });
    expect(failed).toMatchObject({ shows: 'nothing', again: 'later' });
    const error = singleError(failed as AttemptFailure, new RequestAttempts(), {
      sinceMs: 300_000,
      leftMs: 0,
      timeOfDay: 0,
    });
    expect(error).toMatchObject({ code: 'too_many_files' });
  });
});

describe('A redirect', () => {
  it('is not followed, and names where the service may be, by host only', async () => {
    const other = await scriptedService({ status: 200, body: {} });
    const location = `${other.baseUrl}/login?next=secret`;
    const error = await failureOf(list, { status: 302, headers: { location } });
    expect(error).toMatchObject({ code: 'redirected', status: 302 });
    expect(error.message).toBe(`GET /indexes was answered with a redirect (302) to ${new URL(other.baseUrl).host}`);
    expect(error.hint).toContain(other.baseUrl);
    expect(`${error.message} ${error.hint}`).not.toContain('login');
    expect(other.received).toEqual([]);
  });

  it('without a target is reported too', async () => {
    for (const headers of [{}, { location: '/login' }]) {
      const error = await failureOf(list, { status: 301, headers: headers as Record<string, string> });
      expect(error.message).toBe('GET /indexes was answered with a redirect (301)');
      expect(error.hint).toContain('base_url');
    }
  });
});

describe('A redirect to the other spelling of the path', () => {
  const start = startWorkflowOperation({ configId: 'cg-1' });
  const run = { id: 'r-1', state: 'scheduled' };

  it.each([301, 302, 307, 308])('is followed once, with the same method, body and token (%i)', async (status) => {
    const service = await scriptedService(
      { status, headers: { location: '/api/workflow/runs' } },
      { status: 201, body: run },
    );
    const { send } = testClient(serviceOptions(service.baseUrl));
    await send(start);
    await send(start);
    const sent = service.received.map(({ method, url, body }) => [method, url.pathname, body]);
    const body = '{"config_id":"cg-1"}';
    expect(sent).toEqual([
      ['POST', '/api/workflow/runs/', body],
      ['POST', '/api/workflow/runs', body],
      // Learned: a third request is not redirected again.
      ['POST', '/api/workflow/runs', body],
    ]);
    expect(new Set(service.received.map(({ headers }) => headers.authorization)).size).toBe(1);
  });

  it('is followed for reads with their query, to the service itself', async () => {
    const service = await scriptedService(
      (response, { headers }) => {
        // Behind a proxy that ends TLS, services name another scheme and port.
        response.writeHead(308, { location: `https://${headers.host?.split(':')[0]}/api/indexes/` }).end();
      },
      { status: 200, body: { data: [] } },
    );
    await testClient(serviceOptions(service.baseUrl)).send(indexesPageOperation({ limit: 5 }));
    expect(service.received.map(({ url }) => url.pathname + url.search)).toEqual([
      '/api/indexes?limit=5',
      '/api/indexes/?limit=5',
    ]);
  });

  it.each([
    ['another host', 307, 'http://other.example/api/workflow/runs'],
    ['another path', 307, '/login'],
    ['itself', 307, '/api/workflow/runs/'],
    ['a status by which it was answered', 303, '/api/workflow/runs'],
  ])('is an error if it points to %s', async (_, status, location) => {
    const service = await scriptedService({ status, headers: { location } });
    expect(await testClient(serviceOptions(service.baseUrl)).failure(start)).toMatchObject({ code: 'redirected' });
    expect(service.received).toHaveLength(1);
  });

  it('is an error if its target redirects back to the first path', async () => {
    const to = (location: string): Reply => ({ status: 308, headers: { location } });
    const service = await scriptedService(to('/api/workflow/runs'), to('/api/workflow/runs/'));
    expect(await testClient(serviceOptions(service.baseUrl)).failure(start)).toMatchObject({ code: 'redirected' });
    expect(service.received).toHaveLength(2);
  });
});

describe('A success that cannot be read', () => {
  it('is reported as a proxy or a login page if it is a web page, 20 seconds after the first attempt', async () => {
    const service = await scriptedService((response) => {
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
      response.end('\n<!DOCTYPE html><title>Sign in</title>');
    });
    const { failure, meter, clock } = testClient(serviceOptions(service.baseUrl));
    const error = await failure(list);
    expect(error).toMatchObject({ code: 'malformed_response', kind: 'retryable', status: 200 });
    expect(error.hint).toContain('login page');
    expect(clock.monotonic()).toBe(20_000);
    expect(meter.requests).toBeLessThan(10);
  });

  it('is reported without its content', async () => {
    const error = await failureOf(list, (response) => response.end('{"data":[{"email":"ann@example.com"}'));
    expect(error.message).toBe('GET /indexes got an answer that cannot be read (200): it is not JSON (SyntaxError)');
    expect(JSON.stringify({ ...error, stack: error.stack })).not.toContain('ann@');
  });
});

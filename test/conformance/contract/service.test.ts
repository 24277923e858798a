import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { publishedLimits } from '../../../src/local-service/limits/family-limits.js';
import { operations } from '../../../src/local-service/operations/table.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from '../local-service/caller.js';
import { errorBody, published } from './published.js';
import { violations } from './shape.js';

/** The rules that the interface publishes for all operations, checked on the local service without our client. */
let service: LocalService;
let caller: Caller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 50, rateLimits: { management: 0, realtime: 0, profile: 0 } });
  caller = new Caller(service);
});
afterAll(() => service.close());

const everything = Object.entries(published).map(([name, { request, version }]) => {
  const [method = '', path = ''] = request.split(' ');
  return [name, { method, path: path.replace(/\{[^}]*\}/g, 'none'), version }] as const;
});
const guarded = everything.filter(([name]) => name !== 'oauthToken');
const versioned = guarded.filter(([, { version }]) => version !== null);

/** Sends a request with the version that is published for it, and any other headers. */
async function ask(
  { method, path, version }: (typeof everything)[number][1],
  headers: Record<string, string | undefined> = {},
  by = caller,
) {
  const response = await by.send(method, path, { 'api-version': version ?? undefined, ...headers });
  return { ...response, faults: response.status < 400 ? [] : violations(errorBody, response.body) };
}

describe('each of the 23 operations of the local service', () => {
  it('is in the table', () => {
    expect(everything).toHaveLength(23);
  });

  it.each(guarded)('%s: 401 without a token, with a wrong one, and for an unknown tenant', async (_, request) => {
    for (const headers of [
      { authorization: undefined },
      { authorization: 'Bearer x.y.z' },
      { 'service-tenant': 'absent' },
    ]) {
      const { status, faults } = await ask(request, headers);
      expect([headers, status, faults]).toEqual([headers, 401, []]);
    }
  });

  it.each(guarded)(
    '%s: 400 without the tenant header, unless a deployment takes the other name',
    async (_, request) => {
      const without = { 'service-tenant': undefined, 'x-service-tenant': 'acme' };
      const { status, faults, body } = await ask(request, without);
      expect([status, faults, body.message]).toEqual([400, [], 'the header service-tenant is missing']);
      await caller.control('faults', { kind: 'either_tenant_header' });
      const other = await ask(request, without);
      await caller.clearFaults();
      expect(other.body?.message ?? '').not.toContain('header service-tenant');
    },
  );

  it.each(everything)('%s: 405 with Allow to another method', async (_, request) => {
    const { status, headers, faults } = await ask({ ...request, method: 'PATCH' });
    expect([status, headers.get('allow')?.includes(request.method), faults]).toEqual([405, true, []]);
  });

  it.each(guarded)('%s: 403 to a key without any right', async (_, request) => {
    await caller.control('keys', { action: 'create', name: `bare ${request.method} ${request.path}`, permissions: [] });
    const { body } = await caller.control('keys', { action: 'issue', key: `bare ${request.method} ${request.path}` });
    const { status, faults } = await ask(request, {}, new Caller(service, body.token));
    expect([status, faults]).toEqual([403, []]);
  });

  it.each(versioned)(
    '%s: 400 to a missing or unknown version, or 401 where a deployment says so',
    async (_, request) => {
      for (const version of [undefined, '', '1999-01-01', 'latest']) {
        const { status, faults } = await ask(request, { 'api-version': version });
        expect([version, status, faults]).toEqual([version, 400, []]);
      }
      await caller.control('faults', { kind: 'version_refusal' });
      const { status, body } = await ask(request, { 'api-version': '1999-01-01' });
      await caller.clearFaults();
      expect([status, body.message]).toEqual([401, 'Authentication Required']);
    },
  );

  it.each(versioned)('%s: the version may be a parameter of the query, and may be unstable', async (_, request) => {
    for (const version of [request.version, 'unstable']) {
      const path = `${request.path}?api_version=${version}`;
      const { status, body } = await ask({ ...request, path, version: null });
      expect([401, 403, 405]).not.toContain(status);
      expect(String(body.message)).not.toContain('api-version');
    }
  });

  it.each(guarded)('%s: 429 with Retry-After beyond the limit of its group', async (_, request) => {
    const { path } = request;
    const group = path.startsWith('/prof/') ? 'realtime' : path.startsWith('/api/indexes') ? 'profile' : 'management';
    await caller.control('limits', { [group]: 1 });
    const responses = [await ask(request), await ask(request)];
    await caller.control('limits', { [group]: 0 });
    const [first, second] = responses;
    expect(first?.status).not.toBe(429);
    expect([second?.status, second?.headers.get('retry-after'), second?.faults]).toEqual([429, '1', []]);
  });

  it.each(everything)(
    '%s: errors without ids, 503, and the end of a version, if a deployment has them',
    async (_, request) => {
      await caller.control('faults', { kind: 'no_error_ids' });
      await caller.control('faults', { kind: 'status', status: 503, retry_after: 2 });
      await caller.control('faults', { kind: 'deprecation' });
      const { status, body, headers } = await ask(request);
      await caller.clearFaults();
      expect([status, Object.keys(body), headers.get('retry-after')]).toEqual([503, ['status', 'message'], '2']);
      const [from, to] = ['deprecation', 'sunset'].map((name) => Date.parse(headers.get(name) ?? ''));
      expect(Math.round(((to ?? 0) - (from ?? 0)) / 86_400_000)).toBe(92);
    },
  );
});

describe('limits', () => {
  it('are 2000, 10 and 500 requests a second, as published', () => {
    expect(publishedLimits).toEqual({ profile: 2000, management: 10, realtime: 500 });
    const groups = new Set(operations.flatMap(({ guard }) => guard?.group ?? []));
    expect(groups).toEqual(new Set(['profile', 'management', 'realtime']));
  });

  it('are shared with sandboxes, or not where a deployment says so', async () => {
    const own = await startLocalService({ profiles: 10 });
    try {
      const production = new Caller(own);
      await production.control('keys', { action: 'create', name: 'sand', tenant: 'acme-sb' });
      const { body } = await production.control('keys', { action: 'issue', key: 'sand' });
      const sandbox = new Caller(own, body.token, 'acme-sb');
      const segments = (by: Caller) => by.get('/api/segments', { 'api-version': '2024-04-01' });
      for (const [apart, wanted] of [
        [[], 429],
        [['management'], 200],
      ] as const) {
        await production.control('limits', { management: 1, sandboxes_apart: apart });
        const responses = [await segments(production), await segments(sandbox)];
        expect(responses.map(({ status }) => status)).toEqual([200, wanted]);
      }
    } finally {
      await own.close();
    }
  });
});

describe('a body with a field that is not published is 400', () => {
  it.each([
    ['/prof/lookup/col-1/keychain', { keys: { email: 'a@example.org' }, limit: 1 }],
    ['/api/workflow/runs/', { config_id: 'cg-1', name: 'x' }],
  ])('%s', async (path, body) => {
    const headers = { ...caller.headers, 'content-type': 'application/json', 'api-version': '2024-04-01' };
    const sent = Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const response = await fetch(service.url + path, { method: 'POST', headers: sent, body: JSON.stringify(body) });
    expect(response.status).toBe(400);
  });
});

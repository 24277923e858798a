import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';

let service: LocalService;
let caller: Caller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 100 });
  caller = new Caller(service);
});
afterAll(() => service.close());

describe('every request (specification, section 4.1)', () => {
  it('needs a bearer token: 401 without one, with another scheme, and with garbage', async () => {
    for (const authorization of [undefined, 'Basic YTpi', 'Bearer', 'Bearer garbage', `Bearer ${service.token}x`]) {
      const { status, headers } = await caller.get('/api/indexes', { authorization });
      expect(status).toBe(401);
      expect(headers.get('www-authenticate')).toBe('Bearer');
    }
  });

  it('refuses a token whose claims were changed, and one that is not signed', async () => {
    const [head, claims, signature] = service.token.split('.') as [string, string, string];
    const content = JSON.parse(Buffer.from(claims, 'base64url').toString());
    const forged = Buffer.from(JSON.stringify({ ...content, tenant: 'other' })).toString('base64url');
    const unsigned = Buffer.from('{"alg":"none"}').toString('base64url');
    for (const token of [`${head}.${forged}.${signature}`, `${unsigned}.${claims}.`]) {
      expect((await caller.get('/api/indexes', { authorization: `Bearer ${token}` })).status).toBe(401);
    }
  });

  it('needs the tenant header: 400 without it, 401 with a tenant that is not the token’s', async () => {
    expect((await caller.get('/api/indexes', { 'service-tenant': undefined })).status).toBe(400);
    expect((await caller.get('/api/indexes', { 'service-tenant': 'nobody' })).status).toBe(401);
  });

  it('finds the tenant header in any case, and under the name given at the start', async () => {
    const { 'service-tenant': tenant, ...rest } = caller.headers;
    expect(
      (await fetch(`${service.url}/api/indexes`, { headers: { ...rest, 'Service-Tenant': tenant } as never })).status,
    ).toBe(200);
    const own = await startLocalService({ profiles: 1, tenantHeader: 'Acme-Tenant' });
    try {
      const other = new Caller(own);
      expect((await other.get('/api/indexes')).status).toBe(400);
      expect((await other.get('/api/indexes', { 'acme-tenant': own.tenantId })).status).toBe(200);
    } finally {
      await own.close();
    }
  });
});

describe('versions (specification, section 9)', () => {
  it.each(['2025-07-31', 'unstable'])('takes %s as header and as query parameter', async (version) => {
    expect((await caller.get('/api/indexes', { 'api-version': version })).status).toBe(200);
    expect((await caller.get(`/api/indexes?api_version=${version}`, { 'api-version': undefined })).status).toBe(200);
  });

  it.each([undefined, '', '2024-04-01', '2025-7-31', 'latest'])('answers 400 to %s', async (version) => {
    const { status, body } = await caller.get('/api/indexes', { 'api-version': version });
    expect(status).toBe(400);
    expect(body.message).toContain('api-version');
  });
});

describe('errors (specification, sections 2.6 and 7)', () => {
  it('have status, message, request_id and trace_id, and ids of their own', async () => {
    const first = (await caller.get('/api/indexes/none')).body;
    const second = (await caller.get('/api/indexes/none')).body;
    expect(Object.keys(first)).toEqual(['status', 'message', 'request_id', 'trace_id']);
    expect(first.status).toBe(404);
    expect(second.request_id).not.toBe(first.request_id);
    expect(second.trace_id).not.toBe(first.trace_id);
  });

  it('are 404 for an unknown path', async () => {
    for (const path of ['/', '/api', '/api/indexes/', '/indexes', '/api/indexes/a/b', '/api//profiles']) {
      expect((await caller.get(path)).status).toBe(404);
    }
  });

  it('are 405 for a method that a path does not have, and name those that it has', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS']) {
      const { status, headers } = await caller.send(method, '/api/indexes');
      expect(status).toBe(405);
      expect(headers.get('allow')).toBe('GET');
    }
    const { status, headers } = await caller.get('/api/v0/oauth2/token');
    expect(status).toBe(405);
    expect(headers.get('allow')).toBe('POST');
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { answered, Caller } from './caller.js';

let service: LocalService;
let caller: Caller;
beforeAll(async () => {
  service = await startLocalService({ profiles: 10 });
  caller = new Caller(service);
});
afterAll(() => service.close());

function credentials(overrides: Record<string, string> = {}): Record<string, string> {
  const { clientId, clientSecret } = service;
  return { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret, ...overrides };
}

async function exchange(
  form: Record<string, string>,
  headers: Record<string, string> = { 'X-Service-Tenant': 'acme' },
) {
  const response = await fetch(`${service.url}/api/v0/oauth2/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: String(new URLSearchParams(form)),
  });
  return answered(response);
}

describe('POST /api/v0/oauth2/token (specification, section 4.9)', () => {
  it('exchanges client credentials for a bearer token that the API takes', async () => {
    const { status, body } = await exchange(credentials());
    expect(status).toBe(200);
    expect(body).toEqual({ access_token: expect.any(String), expires_in: 3600, token_type: 'Bearer' });
    const { status: read } = await caller.get('/api/indexes', { authorization: `Bearer ${body.access_token}` });
    expect(read).toBe(200);
  });

  it('answers 401 to a wrong secret, a wrong id, and credentials of another tenant', async () => {
    expect((await exchange(credentials({ client_secret: 'wrong' }))).status).toBe(401);
    expect((await exchange(credentials({ client_id: 'cid-none' }))).status).toBe(401);
    await caller.control('keys', { action: 'create', name: 'sandbox', tenant: 'acme-sb-1' });
    expect((await exchange(credentials(), { 'X-Service-Tenant': 'acme-sb-1' })).status).toBe(401);
    expect((await exchange(credentials(), { 'X-Service-Tenant': 'nobody' })).status).toBe(401);
  });

  it('answers 400 to another grant type, a missing field, another content type, and no tenant header', async () => {
    expect((await exchange(credentials({ grant_type: 'password' }))).status).toBe(400);
    expect((await exchange({ grant_type: 'client_credentials', client_id: service.clientId })).status).toBe(400);
    expect((await exchange({})).status).toBe(400);
    const json = { 'content-type': 'application/json', 'X-Service-Tenant': 'acme' };
    expect((await exchange(credentials(), json)).status).toBe(400);
    expect((await exchange(credentials(), {})).status).toBe(400);
  });

  it('needs no api-version and no bearer token', async () => {
    const { status } = await exchange(credentials());
    expect(status).toBe(200);
  });
});

it('a token from OAuth ends after expires_in seconds (specification, section 4.9)', async () => {
  const { body } = await exchange(credentials());
  const authorization = `Bearer ${body.access_token}`;
  await caller.control('time', { advance_ms: 3_590_000 });
  expect((await caller.get('/api/indexes', { authorization })).status).toBe(200);
  await caller.control('time', { advance_ms: 11_000 });
  expect((await caller.get('/api/indexes', { authorization })).status).toBe(401);
});

import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FaultInput } from '../../../src/local-service/faults/fault.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';

let service: LocalService;
beforeEach(async () => {
  service = await startLocalService({ profiles: 200 });
});
afterEach(() => service.close());

const versions: Record<string, string> = { profile: '2025-07-31', management: '2024-04-01' };

function request(path: string, init: RequestInit = {}, group = 'management'): Promise<Response> {
  const headers = {
    authorization: `Bearer ${service.token}`,
    'service-tenant': service.tenantId,
    'api-version': versions[group] as string,
    ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...init.headers,
  };
  return fetch(service.url + path, { ...init, headers });
}

async function control(path: string, body: string): Promise<Response> {
  const headers = { authorization: `Bearer ${service.controlToken}` };
  return fetch(`${service.url}/_control/${path}`, { method: 'POST', headers, body });
}

async function set(fault: FaultInput): Promise<void> {
  expect((await control('faults', JSON.stringify(fault))).status).toBe(200);
}

const indexes = () => request('/api/indexes?limit=1&with_total=true', {}, 'profile');
const start = (body: object) => request('/api/workflow/runs/', { method: 'POST', body: JSON.stringify(body) });
const event = (init: RequestInit) => request('/prof/events/evs-1', { method: 'POST', ...init });

describe('deployments that differ', () => {
  it('respond to events with another success and another body', async () => {
    await set({ kind: 'success', status: 200, body: 'Accepted', match: '/events/' });
    const response = await event({ body: '{}' });
    expect([response.status, await response.text()]).toEqual([200, 'Accepted']);
  });

  it.each([201, 206])('respond to lists with %i', async (status) => {
    await set({ kind: 'success', status });
    const response = await indexes();
    expect([response.status, Object.keys((await response.json()) as object)]).toEqual([
      status,
      ['data', 'next_token', 'total'],
    ]);
  });

  it('write empty lists without data', async () => {
    await set({ kind: 'no_data' });
    expect(await (await indexes()).json()).toEqual({});
    await control('faults', JSON.stringify({ kind: 'no_data', form: 'null' }));
  });

  it('have no totals, or refuse to count', async () => {
    await set({ kind: 'no_total', count: 1 });
    expect(await (await indexes()).json()).not.toHaveProperty('total');
    await set({ kind: 'no_total', status: 504 });
    expect((await indexes()).status).toBe(504);
    expect((await request('/api/indexes', {}, 'profile')).status).toBe(200);
    expect((await request('/prof/segments/seg-vip/profiles')).status).toBe(200);
  });

  it('refuse one id', async () => {
    await set({ kind: 'bad_id', refused: 'a b', status: 431 });
    expect((await request('/prof/profiles/col-1/a%20b')).status).toBe(431);
    expect((await request('/prof/profiles/col-1/a')).status).toBe(404);
  });

  it.each([
    ['nested', 'application/json', /^\{"error":\{"code":404,"message":"the requested entity does not exist"\}\}$/],
    ['problem', 'application/problem+json', /"detail":"the requested/],
    ['errors', 'application/json', /^\{"errors":\[\{"code":"404"/],
    ['text', 'text/plain', /^the requested entity does not exist$/],
    ['html', 'text/html', /^<!doctype html>/],
    ['empty', 'text/plain', /^$/],
  ] as const)('have error bodies of the form %s', async (form, type, body) => {
    await set({ kind: 'error_body', form });
    const response = await request('/api/indexes/none', {}, 'profile');
    expect(response.status).toBe(404);
    const text = await response.text();
    expect(text).toMatch(body);
    if (text !== '') expect(response.headers.get('content-type')).toBe(type);
  });

  it('refuse nulls, and times without a zone, in a start', async () => {
    const lax = { config_id: 'cg-1', run_mode: null };
    const zoneless = { config_id: 'cg-1', range_from: '2026-01-01T00:00:00' };
    expect([(await start(lax)).status, (await start(zoneless)).status]).toEqual([201, 201]);
    await set({ kind: 'workflow_strict' });
    expect([(await start(lax)).status, (await start(zoneless)).status]).toEqual([400, 400]);
    expect((await start({ config_id: 'cg-1', range_from: '2026-01-01' })).status).toBe(201);
  });

  it('read compressed requests, which others refuse', async () => {
    const compressed = { body: gzipSync('{"event_type":"page_view"}'), headers: { 'content-encoding': 'gzip' } };
    expect((await event(compressed)).status).toBe(415);
    await set({ kind: 'gzip_requests' });
    expect((await event(compressed)).status).toBe(202);
    expect((await event({ ...compressed, body: gzipSync('x'.repeat(10_000_000)) })).status).toBe(413);
  });

  it('write times with nine digits of a second', async () => {
    await set({ kind: 'realtime_shape', nanoseconds: 'varied' });
    const { data } = (await (await request('/prof/segments/seg-gold/profiles')).json()) as {
      data: { profile_id: string }[];
    };
    const profile = await (await request(`/prof/profiles/col-1/${data[0]?.profile_id}`)).json();
    expect((profile as { created_at: string }).created_at).toMatch(/\.\d{3}(?!000000)\d{6}Z$/);
  });
});

it('bodies of /_control/ are bounded', async () => {
  expect((await control('time', JSON.stringify({ advance_ms: 1, more: 'x'.repeat(2_000_000) }))).status).toBe(413);
});

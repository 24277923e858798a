import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Operation, ServiceClient } from '../../../src/api/client.js';
import * as management from '../../../src/api/management-api.js';
import type { Page } from '../../../src/api/paging.js';
import * as profile from '../../../src/api/profile-api.js';
import * as realtime from '../../../src/api/realtime-api.js';
import { operations } from '../../../src/local-service/operations/table.js';
import { type Call, calls, type Known } from './calls.js';
import { ContractService } from './contract-service.js';
import { errorBody, type Published, published } from './published.js';
import type { Exchange, Recorder } from './recorder.js';
import { enriched, type Shape, spoilt, violations } from './shape.js';

let contract: ContractService;
let recorder: Recorder;
let known: Known;
beforeAll(async () => {
  contract = await ContractService.open();
  ({ recorder, known } = contract);
});
afterAll(() => contract.close());

const send = <T>(operation: Operation, decode: Call['decode'], by?: ServiceClient) =>
  contract.send<T>(operation, decode, by);

/** Whether a path fits a template, in which `{…}` matches any one segment. */
function fits(path: string, template: string): boolean {
  const [segments, parts] = [path.split('/'), template.split('/')];
  return (
    segments.length === parts.length &&
    parts.every((part, at) => (part.startsWith('{') ? segments[at] !== '' : part === segments[at]))
  );
}

function unpublishedParameters({ url }: Exchange, { query = [] }: Published): string[] {
  return [...url.searchParams.keys()].filter((name) => {
    return !query.includes('*') && !query.includes(name.replace(/\[.*\]$/, '[…]'));
  });
}

/** Every point in which a request differs from the published interface. */
function requestFaults(exchange: Exchange, spec: Published): string[] {
  const [method = '', path = ''] = spec.request.split(' ');
  const faults = unpublishedParameters(exchange, spec).map((name) => `parameter ${name} is not published`);
  if (exchange.method !== method) faults.push(`method ${exchange.method}`);
  if (!fits(exchange.url.pathname, path)) faults.push(`path ${exchange.url.pathname}`);
  if ((exchange.headers['api-version'] ?? null) !== spec.version) faults.push('another version');
  if (spec.body === undefined) return exchange.sent === '' || spec.form ? faults : [...faults, 'a body'];
  if (exchange.headers['content-type'] !== 'application/json') faults.push('another content type');
  if (Number(exchange.headers['content-length']) !== Buffer.byteLength(exchange.sent)) faults.push('no length');
  return [...faults, ...violations(spec.body, JSON.parse(exchange.sent))];
}

const unpublished = Object.keys(calls).filter((name) => published[name] === undefined);
if (unpublished.length > 0) throw new Error(`calls.ts has ${unpublished.join(', ')}, published.ts has not`);

const cases = Object.entries(calls).map(([name, call]) => [name, call, published[name] as Published] as const);
/** Those with a body in the response. */
const withBodies = cases.filter(([, , { response }]) => response !== null);

describe('The interface is covered', () => {
  it('by the functions of the client that make operations', () => {
    const made = Object.keys({ ...profile, ...management, ...realtime }).filter((name) => /Operation$/.test(name));
    expect(made.map((name) => name.replace(/Operation$/, '')).sort()).toEqual(Object.keys(calls).sort());
    expect(Object.keys(calls).concat('oauthToken').sort()).toEqual(Object.keys(published).sort());
  });

  it('by the table of the local service', () => {
    const anyId = (request: string) => request.replace(/\{[^}]*\}/g, '{}');
    const served = operations.map(({ method, path }) => anyId(`${method} ${path}`));
    const wanted = Object.values(published).map(({ request }) => anyId(request));
    // Published: a workflow can be started with and without a trailing slash. The list has only one of the two paths.
    expect(served.filter((each) => each !== 'POST /api/workflow/runs').sort()).toEqual(wanted.sort());
  });
});

describe('The client and the local service agree with the published interface', () => {
  it.each(cases)('%s', async (_, { operation, decode }, spec) => {
    const made = await operation(known);
    const decoded = await send(made, decode);
    const exchange = recorder.last();
    expect(requestFaults(exchange, spec)).toEqual([]);
    expect(exchange.status).toBe(spec.status);
    if (spec.response === null) {
      expect([exchange.answered, decoded]).toEqual(['', null]);
      return;
    }
    const answered = JSON.parse(exchange.answered);
    expect(violations(spec.response, answered)).toEqual([]);
    if ('next_token' in answered || 'total' in answered) {
      const { data, next_token, total } = answered;
      expect(decoded).toEqual({ data, nextToken: next_token || null, total: total ?? null });
      expect(data).not.toEqual([]);
    } else if (!Array.isArray(answered.data) || 'scale' in answered) expect(decoded).toEqual(answered);
    else expect(decoded).toEqual({ data: answered.data, nextToken: null, total: null });
  });

  it.each(cases.filter(([, , { query }]) => query !== undefined))(
    'parameters: the request for %s has every published one',
    async (_, { operation, page, decode }, { query = [] }) => {
      await send(await operation(known), decode);
      const sent = new Set([...recorder.last().url.searchParams.keys()].map((name) => name.replace(/\[.*\]$/, '[…]')));
      if (page !== undefined) sent.add('next_token');
      expect(query.filter((name) => name !== '*' && !sent.has(name))).toEqual([]);
    },
  );

  it.each(withBodies)(
    'fields: the decoder of %s checks every published one',
    async (_, { operation, decode }, { response, status }) => {
      await send(await operation(known), decode);
      const { answered } = recorder.last();
      const headers = {};
      const accepted: string[] = [];
      let tried = 0;
      for (const [place, copy] of spoilt(response as Shape, JSON.parse(answered))) {
        tried += 1;
        try {
          decode(Buffer.from(JSON.stringify(copy)), { status, headers });
          accepted.push(place);
        } catch (error) {
          expect(error).toMatchObject({ code: 'malformed_response' });
        }
      }
      // A total that is no number counts as none: the list is read to its end without it.
      expect(accepted.filter((place) => place !== '$.total')).toEqual([]);
      expect(tried).toBeGreaterThan(0);
    },
  );

  it.each(withBodies)(
    'fields: %s may have more of them, and of those that are published only its key',
    async (_, { operation, decode }, { needed = [], status }) => {
      await send(await operation(known), decode);
      const body = JSON.parse(recorder.last().answered);
      const read = (response: unknown) => decode(Buffer.from(JSON.stringify(response)), { status, headers: {} });
      expect(() => read(enriched(body))).not.toThrow();
      const key = (item: object) => Object.fromEntries(Object.entries(item).filter(([name]) => needed.includes(name)));
      const isList = Array.isArray(body.data) && !('scale' in body);
      expect(() => read(isList ? { data: body.data.map(key) } : key(body))).not.toThrow();
    },
  );

  it('oauthToken', () => {
    const spec = published.oauthToken as Published;
    const exchange = recorder.exchanges.find(({ url }) => url.pathname === '/api/v0/oauth2/token') as Exchange;
    expect(requestFaults(exchange, spec)).toEqual([]);
    expect(exchange.headers['content-type']).toBe('application/x-www-form-urlencoded');
    expect(exchange.headers['x-service-tenant']).toBe('acme');
    expect([...new URLSearchParams(exchange.sent).keys()]).toEqual(spec.form);
    expect(exchange.status).toBe(spec.status);
    expect(violations(spec.response as never, JSON.parse(exchange.answered))).toEqual([]);
    expect(JSON.parse(exchange.answered)).toMatchObject({ token_type: 'Bearer', expires_in: 3600 });
  });
});

describe('Pages', () => {
  const paged = cases.flatMap(([name, call]) => (call.page === undefined ? [] : [[name, call.page, call] as const]));

  it.each(paged)('of %s add up to what one large page has, and to the total', async (name, page, { decode }) => {
    const all = await send<Page<unknown>>(page(known, { limit: 1000, withTotal: true }), decode);
    const limit = Math.max(1, Math.ceil(all.data.length / 4));
    const found: unknown[] = [];
    let nextToken: string | null = null;
    let pages = 0;
    do {
      const one: Page<unknown> = await send(page(known, { limit, nextToken }), decode);
      expect(one.total).toBe(published[name]?.alwaysTotal ? all.total : null);
      found.push(...one.data);
      nextToken = one.nextToken;
      pages += 1;
    } while (nextToken !== null);
    expect(found).toEqual(all.data);
    expect(all.total).toBe(found.length);
    expect(pages).toBeGreaterThanOrEqual(Math.min(2, found.length));
  });
});

describe('The service refuses', () => {
  const unknown = cases.flatMap(([name, call]) => {
    return call.unknown === undefined ? [] : [[name, call.unknown, call.decode] as const];
  });

  it.each(unknown)('%s with an unknown id: 404 with an error body', async (_, make, decode) => {
    const failure = await send(make(known), decode).catch((error) => error);
    const { status, answered } = recorder.last();
    const body = JSON.parse(answered);
    expect(violations(errorBody, body)).toEqual([]);
    expect([status, body.status]).toEqual([404, 404]);
    expect(failure).toMatchObject({
      code: 'not_found',
      status: 404,
      requestId: body.request_id,
      traceId: body.trace_id,
    });
  });

  const guarded = cases.filter(([, , { permissions }]) => permissions !== undefined);

  it.each(guarded)(
    '%s without one of its published permissions, and needs no others',
    async (_, { operation, decode }, spec) => {
      const { permissions = [] } = spec;
      const made = await operation(known);
      expect(made.permissions).toEqual(permissions);
      await send(made, decode, await contract.clientWith(permissions));
      for (const missing of permissions) {
        const others = permissions.filter((each) => each !== missing);
        const refused = send(made, decode, await contract.clientWith(others));
        await expect(refused).rejects.toMatchObject({ code: 'forbidden', hint: expect.stringContaining(missing) });
      }
    },
  );

  it.each(cases.filter(([, , { version }]) => version !== null))(
    '%s in a version that does not exist',
    async (_, { operation, decode }) => {
      const refused = send({ ...(await operation(known)), version: '1999-01-01' }, decode);
      await expect(refused).rejects.toMatchObject({ status: 400, hint: expect.stringContaining('api_versions') });
    },
  );
});

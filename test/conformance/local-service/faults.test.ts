import { Agent, request } from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';

let service: LocalService;
let caller: Caller;
let members: string;
beforeAll(async () => {
  service = await startLocalService({ profiles: 100 });
  caller = new Caller(service);
  members = `/api/indexes/${await caller.indexId('loyalty_members')}/profiles`;
});
afterAll(() => service.close());
afterEach(() => caller.clearFaults());

const set = (fault: Record<string, unknown>) => caller.control('faults', fault);
const statuses = async (count: number, path = members) => {
  const found: number[] = [];
  for (let n = 0; n < count; n += 1) found.push((await caller.get(path)).status);
  return found;
};

describe('a fault hits', () => {
  it('`count` requests, after it has let `after` requests pass', async () => {
    await set({ kind: 'status', status: 503, after: 1, count: 2 });
    expect(await statuses(5)).toEqual([200, 503, 503, 200, 200]);
    expect((await caller.control('faults', {}, 'GET')).body.faults).toEqual([
      { id: expect.any(Number), kind: 'status', status: 503, after: 1, count: 2, seen: 5, hits: 2 },
    ]);
  });

  it('a share of the requests; the seed decides which ones', async () => {
    const run = async () => {
      const own = await startLocalService({ profiles: 1 });
      try {
        const other = new Caller(own);
        await other.control('faults', { kind: 'status', status: 500, share: 0.3 });
        const found: number[] = [];
        for (let n = 0; n < 100; n += 1) found.push((await other.get('/api/indexes')).status);
        return found;
      } finally {
        await own.close();
      }
    };
    const first = await run();
    expect(await run()).toEqual(first);
    const hits = first.filter((status) => status === 500).length;
    expect(hits).toBeGreaterThan(15);
    expect(hits).toBeLessThan(45);
  });

  it.each(['filter[country]=DE', 'filter%5Bcountry%5D=DE', '/GET .*/profiles\\?filter/', '/^get .*=de$/i'])(
    'requests whose method, path and query match %s',
    async (match) => {
      await set({ kind: 'status', status: 503, match });
      expect(await statuses(1, `${members}?filter%5Bcountry%5D=DE`)).toEqual([503]);
      expect(await statuses(1, members)).toEqual([200]);
    },
  );

  it('never the requests that steer the service', async () => {
    await set({ kind: 'status', status: 503 });
    expect((await caller.control('stats', {}, 'GET')).status).toBe(200);
  });

  it('nothing if it is malformed: it is refused with the reason', async () => {
    await expect(set({ kind: 'nonsense' })).rejects.toThrow('400');
    await expect(set({ kind: 'slow', delay: 3 })).rejects.toThrow(/400.*delay/);
    await expect(set({ kind: 'slow', match: '/(/' })).rejects.toThrow('400');
  });

  it('nothing once it is cleared by its id', async () => {
    const { id } = (await set({ kind: 'status', status: 503 })).body;
    await caller.control('faults', { id }, 'DELETE');
    expect(await statuses(1)).toEqual([200]);
  });
});

describe('faults of responses', () => {
  it('status returns any status, with Retry-After, headers, message or body', async () => {
    await set({
      kind: 'status',
      status: 503,
      retry_after: 'Wed, 21 Oct 2026 07:28:00 GMT',
      message: 'closed',
      count: 1,
    });
    const first = await caller.get(members);
    expect([first.status, first.headers.get('retry-after'), first.body.message]).toEqual([
      503,
      'Wed, 21 Oct 2026 07:28:00 GMT',
      'closed',
    ]);
    await set({ kind: 'status', status: 502, body: '<h1>Bad gateway</h1>', headers: { 'content-type': 'text/html' } });
    const second = await caller.get(members);
    expect([second.status, second.text, second.headers.get('content-type')]).toEqual([
      502,
      '<h1>Bad gateway</h1>',
      'text/html',
    ]);
  });

  it('throttle returns 429, with Retry-After or without', async () => {
    await set({ kind: 'throttle', count: 1, retry_after: 7 });
    const { status, headers } = await caller.get(members);
    expect([status, headers.get('retry-after')]).toEqual([429, '7']);
    await set({ kind: 'throttle', retry_after: null });
    expect((await caller.get(members)).headers.has('retry-after')).toBe(false);
  });

  it('missing_permission returns 403 that names the permission', async () => {
    await set({ kind: 'missing_permission' });
    const { status, body } = await caller.get(members);
    expect(status).toBe(403);
    expect(body.message).toContain('index-profiles:read');
  });

  it('not_json returns a page of HTML with status 200', async () => {
    await set({ kind: 'not_json' });
    const { status, headers, body } = await caller.get(members);
    expect([status, headers.get('content-type'), body]).toEqual([200, 'text/html', undefined]);
  });

  it('half_json cuts the body, and sends the length that is left', async () => {
    const whole = (await caller.get(members)).text;
    await set({ kind: 'half_json', keep: 0.25 });
    const { status, text, body } = await caller.get(members);
    expect([status, body]).toEqual([200, undefined]);
    expect(whole.startsWith(text.slice(0, 100))).toBe(true);
    expect(text.length).toBeLessThan(whole.length / 2);
  });

  it('deprecation announces the end of a version', async () => {
    await set({ kind: 'deprecation', sunset: 'Thu, 31 Dec 2026 23:59:59 GMT' });
    const { status, headers } = await caller.get(members);
    expect(status).toBe(200);
    expect(headers.get('deprecation')).toBe('Wed, 30 Sep 2026 23:59:59 GMT');
    expect(headers.get('sunset')).toBe('Thu, 31 Dec 2026 23:59:59 GMT');
  });

  it('gzip compresses for clients that accept it', async () => {
    const plain = (await caller.get(members)).text;
    await set({ kind: 'gzip' });
    const { text, headers } = await caller.get(members, { 'accept-encoding': 'gzip' });
    expect(headers.get('content-encoding')).toBe('gzip');
    expect(text).toBe(plain);
    for (const refusing of ['identity', 'gzip;q=0', 'br, gzip; q=0.0']) {
      const { headers: plainHeaders } = await caller.get(members, { 'accept-encoding': refusing });
      expect([refusing, plainHeaders.has('content-encoding')]).toEqual([refusing, false]);
    }
  });

  it('large_body follows the document with blanks', async () => {
    const plain = (await caller.get(members)).text;
    await set({ kind: 'large_body', bytes: 5000 });
    expect((await caller.get(members)).text).toBe(`${plain}${' '.repeat(5000)}`);
  });

  it('several faults on one request all take effect', async () => {
    await set({ kind: 'deprecation' });
    await set({ kind: 'small_pages', size: 3 });
    const { headers, body } = await caller.get(members);
    expect(headers.has('sunset')).toBe(true);
    expect(body.data.length).toBe(3);
  });
});

describe('faults of connections', () => {
  const agent = new Agent({ pipelining: 1, connections: 1 });
  afterAll(() => agent.destroy());
  const raw = (signal?: AbortSignal) =>
    request(service.url + members, {
      dispatcher: agent,
      headers: caller.headers as Record<string, string>,
      ...(signal === undefined ? {} : { signal }),
    });

  it('reset destroys the connection before the response', async () => {
    await set({ kind: 'reset', count: 1 });
    await expect(raw()).rejects.toThrow();
    expect((await raw()).statusCode).toBe(200);
  });

  it('torn cuts the connection in the middle of the body', async () => {
    await set({ kind: 'torn', count: 2, keep: 0.5 });
    for (let n = 0; n < 2; n += 1) {
      const { statusCode, body } = await raw();
      expect(statusCode).toBe(200);
      await expect(body.text()).rejects.toThrow();
    }
  });

  it('hang never responds', async () => {
    await set({ kind: 'hang', count: 1 });
    await expect(raw(AbortSignal.timeout(200))).rejects.toThrow(/timeout|abort/i);
  });

  it('slow waits before the response, slow_body in the middle of it', async () => {
    const whole = (await caller.get(members)).text;
    const began = performance.now();
    await set({ kind: 'slow', delay_ms: 120, count: 1 });
    const slow = await raw();
    expect(performance.now() - began).toBeGreaterThan(110);
    expect(await slow.body.text()).toBe(whole);
    await set({ kind: 'slow_body', delay_ms: 40, chunks: 4, count: 1 });
    const again = performance.now();
    expect(await (await raw()).body.text()).toBe(whole);
    expect(performance.now() - again).toBeGreaterThan(110);
  });
});

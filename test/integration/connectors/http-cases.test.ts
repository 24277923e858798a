import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../../src/core/run-report.js';
import type { OutgoingRecord } from '../../../src/sdk/index.js';
import { httpDestinations, json, types } from '../../fixtures/http-destinations.js';
import { deliver, someRecords } from '../../fixtures/record-driver.js';
import { Workspace } from '../../fixtures/workspace.js';

const { receiver, notices, base, open, once, close } = httpDestinations();
const idsOf = (body: string) => (JSON.parse(body) as { id: string }[]).map(({ id }) => id);

describe('bodies', () => {
  const row = [{ ...someRecords(1)[0], json: '{"id":"a b","n":12345678901234567890,"x":null,"l":["p","q"]}' } as never];

  it('as a form have members, lists and NULL', async () => {
    await once({ format: 'form', body: { id: '{{ id }}', m: { n: '{{ n }}' }, x: '{{ x }}', l: '{{ l }}' } }, row);
    const { body = '', headers } = receiver().received[0] ?? {};
    expect(headers?.['content-type']).toBe('application/x-www-form-urlencoded');
    expect([...new URLSearchParams(body)]).toEqual([
      ...[
        ['id', 'a b'],
        ['m[n]', '12345678901234567890'],
        ['x', ''],
        ['l', 'p'],
        ['l', 'q'],
      ],
    ]);
  });

  it('as a form or JSON leave NULL out with omit_null', async () => {
    const body = { id: '{{ id }}', x: '{{ x }}', z: 'no {{ x }}' };
    await once({ format: 'form', omit_null: true, body }, row);
    await once({ omit_null: true, body }, row);
    expect(receiver().received.map((sent) => sent.body)).toEqual(['id=a+b&z=no+', '{"id":"a b","z":"no "}']);
  });

  it('as text are that text; NULL is nothing', async () => {
    await once({ format: 'text', body: 'Hello {{ id }}: {{ l }}' }, row);
    await once({ format: 'text', body: '{{ x }}' }, row);
    expect(receiver().received.map((sent) => sent.body)).toEqual(['Hello a b: ["p","q"]', '']);
  });
});

describe('a row is set aside, and nothing is sent', () => {
  const methods = ['post', 'put', 'patch', 'delete', 'get'];
  const values = [null, '', '.', '..'];
  it.each(methods.flatMap((method) => values.map((id) => [method, id] as const)))('%s of %j', async (method, id) => {
    const body = method === 'delete' || method === 'get' ? 'none' : { a: 1 };
    const rows = [{ ...someRecords(1)[0], json: JSON.stringify({ id }) } as never];
    expect(types(await once({ url: `${base()}/idx/{{ id }}`, method, body }, rows))).toEqual(['refused']);
    expect(types(await once({ url: `${base()}/{{ id }}/y?q=1`, method, body }, rows))).toEqual(['refused']);
    expect(receiver().received).toEqual([]);
  });

  it.each(['..\\..', '.\t.', '..\n', 'a/../../b'])('with | raw, for %j', async (id) => {
    const rows = [{ ...someRecords(1)[0], json: JSON.stringify({ id }) } as never];
    expect(types(await once({ url: `${base()}/idx/{{ id | raw }}`, method: 'delete', body: 'none' }, rows))).toEqual([
      'refused',
    ]);
    expect(receiver().received).toEqual([]);
  });

  it.each(['a\nb', 'a\r\nx: y', 'a\0', '日'])('whose header would be %j', async (id) => {
    const rows = [{ ...someRecords(1)[0], json: JSON.stringify({ id }) } as never];
    expect(types(await once({ headers: { 'x-id': '{{ id }}' } }, rows))).toEqual(['refused']);
    expect(receiver().received).toEqual([]);
  });
});

describe('responses', () => {
  const packed = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync } as const;
  it.each([...Object.entries(packed), ['deflate', deflateRawSync] as const])(
    'packed with %s are read',
    async (encoding, pack) => {
      receiver().reset((_, response) =>
        response.writeHead(200, { 'content-encoding': encoding }).end(pack(JSON.stringify({ errors: [{ index: 1 }] }))),
      );
      const results = await once(
        { batch: {}, response: { results: { path: 'errors', index: 'index' } } },
        someRecords(3),
      );
      expect(types(results)).toEqual(['acknowledged', 'refused', 'acknowledged']);
    },
  );

  it.each([
    ['\uFEFF <!DOCTYPE html><html>Log in</html>', ''],
    ['\n<!-- single sign-on -->\n<HTML lang="en"><body>Log in</body></HTML>', ''],
    ['<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN">', 'application/xhtml+xml'],
    ['<head><title>Sign in</title></head>', 'text/plain'],
    ['<form action="/login">', 'text/html; charset=utf-8'],
  ])('with a page for people acknowledge nothing: %s', async (page, type) => {
    receiver().reset((_, response) => response.writeHead(200, { 'content-type': type }).end(page));
    await expect(once({}, someRecords(1))).rejects.toMatchObject({ code: 'destination_refused' });
  });

  it.each([404, 410])('of %d with a page for people acknowledge a delete', async (status) => {
    const page = '<!DOCTYPE html><html><body>Cannot DELETE /x</body></html>';
    receiver().reset((_, response) => response.writeHead(status, { 'content-type': 'text/html' }).end(page));
    const gone = [{ ...(someRecords(1)[0] as OutgoingRecord), op: 'delete' as const }];
    expect(types(await once({ delete: { method: 'delete', body: 'none' } }, gone))).toEqual(['acknowledged']);
  });

  it.each([
    ['gzip', gzipSync(JSON.stringify({ ok: 'x'.repeat(5000) })).subarray(0, 30)],
    ['gzip', 'plain'],
    ['br', 'plain'],
    ['deflate', '\u0000'],
  ])('that cannot be unpacked acknowledge nothing, and the reason says so: %s', async (encoding, body) => {
    receiver().reset((_, response) => response.writeHead(200, { 'content-encoding': encoding }).end(body));
    const [result] = await once({}, someRecords(1));
    const reason = expect.stringMatching(/^a response that cannot be unpacked from 127\.0\.0\.1:\d+ \(\w+\)$/);
    expect(result).toMatchObject({ type: 'again', reason });
  });

  it.each(['ok', '', '1'])('of text/html that are no page acknowledge: %j', async (body) => {
    receiver().reset((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(body));
    expect(types(await once({}, someRecords(1)))).toEqual(['acknowledged']);
  });

  const soon = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;
  const waits: readonly (readonly [string, () => string, number | undefined])[] = [
    ['retry-after', () => '30', 30],
    ['retry-after', () => new Date(soon(30) * 1000).toUTCString(), 30],
    ['retry-after', () => 'soon', undefined],
    ['backoff', () => '2.5', 2.5],
    ['x-ratelimit-reset', () => '30', 30],
    ['x-ratelimit-reset', () => String(soon(30)), 30],
    ['x-ratelimit-reset', () => String(soon(30) * 1000), 30],
    ['x-ratelimit-reset', () => new Date(soon(30) * 1000).toISOString(), 30],
    ['ratelimit-reset', () => String(soon(-30)), 0],
    ['ratelimit', () => '"day";r=0;t=30', 30],
  ];
  it.each(waits)('of 429 whose %s asks to wait: %s', async (name, value, seconds) => {
    const text = value();
    receiver().reset((_, response) => response.writeHead(429, { [name]: text }).end());
    const [result] = await once({}, someRecords(1));
    expect(result).toMatchObject({ type: 'again', isForAll: true });
    const { afterMs } = result as { afterMs?: number };
    if (seconds === undefined) expect(afterMs).toBeUndefined();
    else expect(Math.abs((afterMs as number) / 1000 - seconds)).toBeLessThanOrEqual(2);
  });

  it('by key name records as text, exactly, then without case; a list missing refuses none', async () => {
    receiver().reset(({ body }, response) =>
      json(response, 207, body.includes('K-') ? {} : { failed: [{ ids: ['K-1'], why: 'bad k-1' }, { ids: 'k-3' }] }),
    );
    const response = { results: { path: 'failed', key: 'ids', reason: 'why' } };
    const results = await once({ batch: {}, response }, someRecords(4));
    expect(types(results)).toEqual(['acknowledged', 'refused', 'acknowledged', 'refused']);
    expect(JSON.stringify(results[1])).not.toContain('k-1');
  });

  it('about records that were not sent acknowledge nothing: halves', async () => {
    receiver().reset(({ body }, response) => {
      const ids = idsOf(body);
      json(response, 200, { failed: ids.includes('k-2') ? [{ id: 'someone-else' }] : [] });
    });
    const response = { results: { path: 'failed', key: 'id' } };
    const results = await once({ batch: {}, response }, someRecords(4));
    expect(types(results)).toEqual(['acknowledged', 'acknowledged', 'refused', 'acknowledged']);
  });

  it('by order without their list acknowledge nothing', async () => {
    receiver().reset((_, response) => json(response, 200, { ok: true }));
    const results = await once(
      { batch: {}, response: { results: { path: 'items', status: 'status' } } },
      someRecords(2),
    );
    expect(types(results)).toEqual(['refused', 'refused']);
  });

  it('of a receiver that is away, in the form of results, are no rejects', async () => {
    receiver().reset((_, response) => json(response, 503, { errors: ['overloaded'], items: [] }));
    for (const results of [
      { path: 'errors', index: 'index' },
      { path: 'items', status: 'status' },
    ]) {
      expect(new Set(types(await once({ batch: {}, response: { results } }, someRecords(3))))).toEqual(
        new Set(['again']),
      );
    }
    expect(receiver().received).toHaveLength(2);
  });

  it.each([
    [401, 'destination_login'],
    [403, 'destination_permission'],
    [407, 'destination_login'],
    [302, 'destination_refused'],
  ])('of %i end the delivery, also if their causes look like results', async (status, code) => {
    receiver().reset((_, response) => json(response, status, { errors: [{ index: 0, message: 'no' }] }));
    for (const results of [{ path: 'errors' }, { path: 'errors', index: 'index' }])
      await expect(once({ batch: {}, response: { results } }, someRecords(1))).rejects.toMatchObject({ code });
    expect(receiver().received).toHaveLength(2);
  });

  it('of a redirect acknowledge nothing, also if `accepted` names it', async () => {
    receiver().reset((_, response) => response.writeHead(302, { location: '/login' }).end());
    const failing = once({ response: { accepted: ['2xx', '3xx'] } }, someRecords(1));
    await expect(failing).rejects.toMatchObject({ code: 'destination_refused' });
  });

  it('of 503 whose causes are as many as the records are no results by order', async () => {
    receiver().reset((_, response) => json(response, 503, { errors: [{ message: 'overloaded' }] }));
    const response = { results: { path: 'errors' } };
    expect(types(await once({ batch: {}, response }, someRecords(1)))).toEqual(['again']);
  });

  it.each([
    [{ body: undefined }, '{"results":[{"id":"0'],
    [{ response: { results: { path: 'errors', key: 'id' } } }, '{"errors":[{"id":"k-0","mess'],
    [{ response: { success: { path: 'ok', equals: 'true' } } }, ' {"ok":tr'],
    [{ response: { count: 'left' } }, '[{"left":'],
  ])('of JSON without an end acknowledge and refuse nothing: %j', async (options, body) => {
    receiver().reset((_, response) => response.writeHead(200).end(body));
    const [result] = await once(options, someRecords(1));
    expect(result).toMatchObject({ type: 'again', reason: expect.stringMatching(/200 OK with JSON that has no end$/) });
  });

  it('by order, one without a status, acknowledge nothing: halves', async () => {
    receiver().reset(({ body }, response) =>
      json(response, 200, { items: idsOf(body).map((id) => ({ index: id === 'k-1' ? {} : { status: 201 } })) }),
    );
    const response = { results: { path: 'items', entry: '*', status: 'status' } };
    const results = await once({ batch: {}, response }, someRecords(3));
    expect(types(results)).toEqual(['acknowledged', 'refused', 'acknowledged']);
    expect(results[1]).toMatchObject({ reason: 'an entry of the results has no status' });
  });

  it('give the reason of a record in the usual members', async () => {
    receiver().reset((_, response) => json(response, 200, { errors: [{ index: 0, error: { message: 'bad k-0' } }] }));
    const response = { results: { path: 'errors', index: 'index' } };
    expect((await once({ response }, someRecords(1)))[0]).toMatchObject({ type: 'refused', reason: 'bad [value]' });
  });

  it('of 200 that `again` names are tried again, and `success` refuses others', async () => {
    receiver().reset((_, response, count) =>
      json(response, 200, count === 1 ? { ok: false, error: 'ratelimited' } : { ok: count > 2, error: 'no_user' }),
    );
    const response = {
      ...{ success: { path: 'ok', equals: 'true' }, reason: 'error' },
      again: [{ status: '200', path: 'error', in: ['ratelimited'] }],
    };
    const results = await deliver(await open({ response }), someRecords(2), 1);
    expect(types([...results.values()]).sort()).toEqual(['acknowledged', 'refused']);
    expect(receiver().received).toHaveLength(3);
  });

  it('with a count are a notice, and no reject', async () => {
    receiver().reset((_, response) => json(response, 200, { num_invalid: 2 }));
    const destination = await open({ batch: {}, response: { count: 'num_invalid' } });
    expect(new Set(types(await destination.send(someRecords(3), new AbortController().signal)))).toEqual(
      new Set(['acknowledged']),
    );
    const listed = notices();
    await close();
    expect(listed.join()).toContain('did not take 2 records');
  });
});

describe('one bad record', () => {
  it.each([409, 400, 422])(
    'answered %i as a whole, after those before it were stored, costs the others nothing',
    async (status) => {
      const stored = new Map<string, number>();
      receiver().reset(({ body }, response) => {
        for (const id of idsOf(body)) {
          if (id === 'k-36') return json(response, status, { message: 'k-36 is a duplicate' });
          stored.set(id, (stored.get(id) ?? 0) + 1);
        }
        return response.writeHead(200).end();
      });
      const results = await once({ batch: { records: 100 } }, someRecords(100));
      const refused = results.filter(({ type }) => type === 'refused');
      expect([refused.length, stored.size]).toEqual([1, 99]);
      expect(refused[0]).toMatchObject({ reason: expect.stringContaining(String(status)) });
      expect(JSON.stringify(refused)).not.toContain('k-36');
      expect(receiver().received.length).toBeLessThanOrEqual(15);
    },
  );

  it('that gets 500 does not keep the others of its batch back, each with a separate URL', async () => {
    const taken = new Set<string>();
    receiver().reset(({ path }, response) => {
      if (path === '/c/k-0') return response.writeHead(500).end();
      taken.add(path);
      return response.writeHead(204).end();
    });
    const destination = await open({ url: `${base()}/c/{{ id }}`, method: 'put', batch: { records: 100 } });
    const results = await destination.send(someRecords(100), new AbortController().signal);
    expect([types(results)[0], taken.size]).toEqual(['again', 99]);
  });

  it('a receiver that is away gets few requests, however long the batch is', async () => {
    receiver().reset((_, response) => response.writeHead(500).end());
    const destination = await open({ batch: { records: 1000 } });
    for (let round = 0; round < 5; round += 1)
      expect(new Set(types(await destination.send(someRecords(1000), new AbortController().signal)))).toEqual(
        new Set(['again']),
      );
    expect(receiver().received.length).toBeLessThan(110);
  });
});

describe('a request that may have been done', () => {
  it.each(['no response', '504'])('goes out again with the same bytes and key: %s', async (how) => {
    receiver().reset((_, response, count) => {
      if (count > 1) return response.writeHead(204).end();
      return how === '504' ? response.writeHead(504).end() : response.destroy();
    });
    await deliver(await open({ idempotency: { header: 'Idempotency-Key' } }), someRecords(1), 1);
    const [first, second] = receiver().received.map(({ body, headers }) => [body, headers['idempotency-key']]);
    expect(first?.[1]).toMatch(/^[0-9a-f]{32}$/);
    expect(second).toEqual(first);
  });

  it('has a new key after a response of 500, and for an item that must be sent again', async () => {
    receiver().reset((_, response, count) =>
      count === 1
        ? response.writeHead(500).end()
        : json(response, 200, { items: [{ status: count === 2 ? 429 : 200 }] }),
    );
    const response = { results: { path: 'items', status: 'status' } };
    await deliver(await open({ idempotency: { header: 'k' }, response, batch: { records: 1 } }), someRecords(1), 1);
    expect(new Set(receiver().received.map(({ headers }) => headers.k)).size).toBe(3);
  });
});

describe('the whole program', () => {
  let space: Workspace;
  beforeAll(async () => {
    space = await Workspace.open({ profiles: 2000 });
  });
  afterAll(() => space.close());

  async function cdsync(...words: string[]) {
    const { code, stdout } = await space.cdsync([...words, '--json', '--quiet']);
    return { code, delivery: (JSON.parse(stdout) as RunReport).jobs?.[0]?.destinations[0] };
  }
  const configure = (job: string, more: object) =>
    space.configure(job, [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }], {
      job: { destinations: [{ name: 'crm', connector: 'http', url: `${base()}/x`, ...more }] },
    });

  it('sends nothing if a template names a column that is not there', async () => {
    await configure('unknown', { body: { id: '{{ id }}', mail: '{{ emial }}' } });
    const { code, delivery } = await cdsync('run', 'unknown.json');
    expect([code, delivery?.error?.code, receiver().received.length]).toEqual([5, 'template_invalid', 0]);
    expect(delivery?.error?.message).toContain('"email"');
  });

  it('delivers all but a record that gets 500 for ever, which waits with exit code 5, and goes first next time', async () => {
    await configure('waits', {
      body: { id: '{{ id }}' },
      batch: { records: 500 },
      rate: [
        { requests: 1000, per: '1s' },
        { records: 90000, per: '1m' },
      ],
    });
    await cdsync('run', 'waits.json', '--no-push');
    const ids = (await space.query('waits', 'select id from members order by id')).map(({ id }) => String(id));
    const bad = ids[700] as string;
    const taken = new Set<string>();
    receiver().reset(({ body }, response) => {
      const sent = idsOf(body);
      if (sent.includes(bad)) return response.writeHead(500).end();
      for (const id of sent) taken.add(id);
      return response.writeHead(204).end();
    });
    const waits = await cdsync('push', 'waits.json');
    expect([waits.code, waits.delivery?.status, waits.delivery?.waiting, waits.delivery?.error?.code]).toEqual([
      ...[5, 'partial', 1, 'records_waiting'],
    ]);
    expect(taken.size).toBe(ids.length - 1);
    expect(receiver().received.length).toBeLessThan(60);
    receiver().reset();
    expect(await cdsync('push', 'waits.json')).toMatchObject({ code: 0, delivery: { status: 'ok', waiting: 0 } });
    expect(receiver().received.map(({ body }) => idsOf(body))).toEqual([[bad]]);
  });

  it('sends what waits under a key that has no response yet: a receiver repeats the one of an earlier key', async () => {
    await configure('keys', { body: { id: '{{ id }}' }, batch: { records: 500 }, idempotency: { header: 'k' } });
    await cdsync('run', 'keys.json', '--no-push');
    const [{ id: bad } = {}] = await space.query('keys', 'select id from members limit 1');
    const statuses = new Map<string, number>();
    let isIll = true;
    receiver().reset(({ body, headers: { k = '' } }, response) => {
      if (!statuses.has(k)) statuses.set(k, isIll && body.includes(String(bad)) ? 500 : 204);
      return response.writeHead(statuses.get(k) as number).end();
    });
    expect(await cdsync('push', 'keys.json')).toMatchObject({ code: 5, delivery: { waiting: 1 } });
    isIll = false;
    receiver().received.length = 0;
    expect(await cdsync('push', 'keys.json')).toMatchObject({ code: 0, delivery: { status: 'ok', waiting: 0 } });
    expect(receiver().received).toHaveLength(1);
  });
});

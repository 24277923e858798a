import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import http from '../../../connectors/http/index.js';
import type { HttpShape } from '../../../connectors/http/options.js';
import type { DestinationContext } from '../../../src/sdk/index.js';
import { map } from '../../../src/sdk/option.js';
import { httpDestinations, json, types } from '../../fixtures/http-destinations.js';
import { someRecords } from '../../fixtures/record-driver.js';

const { receiver, notices, base, open, once } = httpDestinations();

describe('a login', () => {
  it.each([
    [{ bearer: 'token-1' }, 'authorization', 'Bearer token-1'],
    [{ basic: { user: 'u', password: 'p:ä' } }, 'authorization', `Basic ${Buffer.from('u:p:ä').toString('base64')}`],
    [{ header: { name: 'X-Key', value: 'secret-key' } }, 'x-key', 'secret-key'],
  ])('%j goes out in its header', async (auth, name, value) => {
    expect(types(await once({ auth }, someRecords(1)))).toEqual(['acknowledged']);
    expect(receiver().received[0]?.headers[name]).toBe(value);
  });

  it('as a parameter of the URL is encoded, after those that it has', async () => {
    await once({ url: `${base()}/x?a=1`, auth: { query: { name: 'api_key', value: 'a&b' } } }, someRecords(1));
    expect(receiver().received[0]?.path).toBe('/x?a=1&api_key=a%26b');
  });

  it('that a response repeats is in no reason', async () => {
    receiver().reset((_, response) => json(response, 400, { message: 'the key secret-key-77 may not do this' }));
    const [result] = await once({ auth: { header: { name: 'x-key', value: 'secret-key-77' } } }, someRecords(1));
    expect(result).toMatchObject({ type: 'refused' });
    expect(JSON.stringify(result)).not.toContain('secret-key-77');
  });
});

describe('oauth2', () => {
  const auth = (more: object = {}) => ({
    oauth2: { token_url: `${base()}/token`, client_id: 'c:1', client_secret: 's/1', scope: 'a b', ...more },
  });
  /** Issues tokens; the API takes the newest only. */
  function server({ expires = 3600 as number | undefined, takesRaw = false } = {}) {
    const state = { issued: 0, revoked: false };
    receiver().reset(({ path, headers, body }, response) => {
      if (path !== '/token') {
        const isGood = headers.authorization === `Bearer token-${state.issued}` && !state.revoked;
        return response.writeHead(isGood ? 204 : 401).end();
      }
      const login = Buffer.from((headers.authorization ?? '').slice(6), 'base64').toString();
      if (takesRaw && login !== 'c:1:s/1') return json(response, 401, { error: 'invalid_client' });
      state.issued += 1;
      state.revoked = false;
      const refresh = new URLSearchParams(body).get('refresh_token');
      return json(response, 200, {
        access_token: `token-${state.issued}`,
        ...(expires === undefined ? {} : { expires_in: expires }),
        scope: 'a',
        ...(refresh === null ? {} : { refresh_token: `${refresh}+` }),
      });
    });
    return state;
  }
  const logins = () => receiver().received.filter(({ path }) => path === '/token');

  it('logs in once for all, with id and secret form-encoded in the header, and says which scope is missing', async () => {
    server();
    expect(new Set(types(await once({ auth: auth() }, someRecords(5))))).toEqual(new Set(['acknowledged']));
    expect(logins()).toHaveLength(1);
    const { headers, body } = logins()[0] ?? {};
    expect(Buffer.from(String(headers?.authorization).slice(6), 'base64').toString()).toBe('c%3A1:s%2F1');
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({ grant_type: 'client_credentials', scope: 'a b' });
    expect(notices().join()).toContain('b is missing');
  });

  it('sends them once more as they are after 401', async () => {
    server({ takesRaw: true });
    expect(types(await once({ auth: auth() }, someRecords(1)))).toEqual(['acknowledged']);
    expect(logins()).toHaveLength(2);
  });

  it.each([
    ['invalid_grant', 'invalid_request', 'invalid_grant'],
    ['invalid_client', 'invalid_request', 'invalid_client'],
    ['invalid_client', 'invalid_scope', 'invalid_scope'],
  ])('says of %s for the one form and %s for the other: %s', async (form, raw, shown) => {
    receiver().reset(({ headers }, response) => {
      const login = Buffer.from(String(headers.authorization).slice(6), 'base64').toString();
      json(response, 400, { error: login === 'c:1:s/1' ? raw : form });
    });
    await expect(once({ auth: auth() }, someRecords(1))).rejects.toMatchObject({
      ...{ code: 'destination_login', message: expect.stringContaining(`(${shown})`) },
    });
  });

  it('has a token that is good when the limits let the request go', async () => {
    let issuedAt = 0;
    receiver().reset(({ path }, response) => {
      const age = Date.now() - issuedAt;
      if (path !== '/token') return response.writeHead(age < 600 ? 204 : 401).end();
      issuedAt = Date.now();
      return json(response, 200, { access_token: 'token', expires_in: 0.6 });
    });
    const rate = { requests: 1, per: '1s' };
    const results = await once({ auth: auth({ scope: undefined }), rate, parallel: 1 }, someRecords(3));
    expect(types(results)).toEqual(Array(3).fill('acknowledged'));
    expect(receiver().received.filter(({ path }) => path !== '/token')).toHaveLength(3);
  });

  it('sends them in the body if asked to', async () => {
    server();
    await once({ auth: auth({ send: 'body', audience: 'x', params: { account: '7' } }) }, someRecords(1));
    expect(logins()[0]?.headers.authorization).toBeUndefined();
    expect(Object.fromEntries(new URLSearchParams(logins()[0]?.body))).toMatchObject({
      ...{ client_id: 'c:1', client_secret: 's/1', audience: 'x', account: '7' },
    });
  });

  it('logs in again after the first 401, once for requests at the same time, and ends if that does not help', async () => {
    const state = server({ expires: undefined });
    const destination = await open({ auth: auth() });
    await destination.send(someRecords(1), new AbortController().signal);
    state.revoked = true;
    const results = await Promise.all(
      someRecords(4).map((record) => destination.send([record], new AbortController().signal)),
    );
    expect(types(results.flat())).toEqual(Array(4).fill('acknowledged'));
    expect(logins()).toHaveLength(2);
    receiver().reset(({ path }, response) =>
      path === '/token' ? json(response, 200, { access_token: 'token-x' }) : response.writeHead(401).end(),
    );
    await expect(destination.send(someRecords(1), new AbortController().signal)).rejects.toMatchObject({
      code: 'destination_login',
    });
    expect(receiver().received.length).toBeLessThan(6);
  });

  it('that ends again and again is renewed each time, also if a response about an earlier token is late', async () => {
    const waiting: (() => void)[] = [];
    let [issued, taken] = [0, 0];
    receiver().reset(({ path, headers, body }, response) => {
      if (path === '/token') {
        issued += 1;
        taken = 0;
        return json(response, 200, { access_token: `token-${issued}` });
      }
      if (body.includes('k-0')) return waiting.push(() => response.writeHead(204).end());
      taken += 1;
      const isGood = headers.authorization === `Bearer token-${issued}` && taken <= 2;
      if (isGood && issued === 2 && taken === 2) for (const end of waiting.splice(0)) setTimeout(end, 20);
      return response.writeHead(isGood ? 204 : 401).end();
    });
    const destination = await open({ auth: auth({ scope: undefined }), parallel: 2 });
    const { signal } = new AbortController();
    const [first, ...others] = someRecords(12);
    const slow = destination.send([first as never], signal);
    for (const record of others) {
      if (issued === 2 && taken === 2) await slow;
      expect(types(await destination.send([record], signal))).toEqual(['acknowledged']);
    }
    expect(types(await slow)).toEqual(['acknowledged']);
    expect(issued).toBeGreaterThan(4);
  });

  it('keeps a refresh token that the server replaces, also one that a check got', async () => {
    server();
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-http-cases-'));
    try {
      const values = { url: `${base()}/x`, auth: auth({ grant: 'refresh_token', refresh_token: 'r' }) };
      const context = {
        ...{ destination: 'target', job: 'nightly', folder, keptFolder: join(folder, 'kept') },
        options: z.parse(map(http.options), { ...values, body: { id: '{{ id }}' } }),
        service: { sendEvent: () => Promise.reject(new Error('none')) },
        signal: new AbortController().signal,
        notice: () => undefined,
      } as unknown as DestinationContext<HttpShape>;
      await http.check?.(context, []);
      const destination = await http.open(context);
      await destination.send(someRecords(1), context.signal);
      await destination.close();
      const tokens = logins().map(({ body }) => new URLSearchParams(body).get('refresh_token'));
      expect(tokens).toEqual(['r', 'r+']);
      expect(await readFile(join(folder, 'kept', 'refresh-token'), 'utf8')).toContain('r++');
      // Another token in the configuration counts, and not the kept one.
      const other = z.parse(map(http.options), {
        ...values,
        auth: auth({ grant: 'refresh_token', refresh_token: 'x' }),
      });
      await http.check?.({ ...context, options: other }, []);
      expect(new URLSearchParams(logins().at(-1)?.body).get('refresh_token')).toBe('x');
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('a check', () => {
  it('sends `test` with the whole login, and no row', async () => {
    receiver().reset(({ path, headers }, response) =>
      response.writeHead(path === '/me?api_key=k' && headers['x-team'] === 'crm' ? 200 : 403).end(),
    );
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-http-cases-'));
    const values = {
      ...{ url: `${base()}/{{ id }}`, body: { id: '{{ id }}' }, headers: { 'X-Team': 'crm', 'x-row': '{{ id }}' } },
      ...{ auth: { query: { name: 'api_key', value: 'k' } }, test: { url: `${base()}/me` } },
    };
    const context = { folder, keptFolder: folder, signal: new AbortController().signal, notice: () => undefined };
    const options = z.parse(map(http.options), values);
    const result = await http.check?.({ ...context, options } as unknown as DestinationContext<HttpShape>, []);
    await rm(folder, { recursive: true });
    expect(result?.lacks).toEqual([]);
    expect(receiver().received).toHaveLength(1);
  });

  it.each(['https://api.{{ x }}.com/', 'https://api.example.com{{ x }}', 'https://{{ x }}'])(
    'a URL whose host a row could choose is refused: %s',
    (url) => {
      expect(z.safeParse(map(http.options), { url, body: { a: 1 } }).success).toBe(false);
    },
  );
});

describe('rate', () => {
  it('that a response of 200 says is used up for a day ends the delivery, as a 429 does', async () => {
    const headers = { 'ratelimit-remaining': '0', 'ratelimit-reset': '86400' };
    receiver().reset((_, response) => json(response, 200, {}, headers));
    const destination = await open({});
    const send = () => destination.send(someRecords(2), new AbortController().signal);
    const [taken, again] = await send();
    expect(taken).toEqual({ type: 'acknowledged' });
    expect(again).toMatchObject({ type: 'again', isForAll: true, afterMs: expect.closeTo(86_400_000, -5) });
    expect(types(await send())).toEqual(['again', 'again']);
    expect(receiver().received).toHaveLength(1);
  });

  it('makes no batch that is larger than the records of its span', async () => {
    await once({ batch: { records: 100 }, rate: { records: 5, per: '50ms' } }, someRecords(12));
    expect(receiver().received.map(({ body }) => JSON.parse(body).length)).toEqual([5, 5, 2]);
  });

  it('counts in any span, over several limits, and over deliveries', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-http-cases-'));
    const times: number[] = [];
    receiver().reset((_, response) => {
      times.push(performance.now());
      response.writeHead(204).end();
    });
    const context = {
      ...{ destination: 'target', job: 'nightly', folder, keptFolder: join(folder, 'kept') },
      options: z.parse(map(http.options), {
        ...{ url: `${base()}/x`, body: { id: '{{ id }}' } },
        rate: [
          { requests: 4, per: '1s' },
          { records: 6, per: '2s' },
        ],
      }),
      ...{ signal: new AbortController().signal, notice: () => undefined },
    } as unknown as DestinationContext<HttpShape>;
    for (const part of [someRecords(9).slice(0, 5), someRecords(9).slice(5)]) {
      const destination = await http.open(context);
      await destination.send(part, context.signal);
      await destination.close();
    }
    await rm(folder, { recursive: true });
    const most = (per: number) => Math.max(...times.map((at) => times.filter((t) => t >= at && t < at + per).length));
    expect([times.length, most(1000) <= 4, most(2000) <= 6]).toEqual([9, true, true]);
  });
});

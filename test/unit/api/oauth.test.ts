import { UnsecuredJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { Secret } from '../../../src/core/secret.js';
import { turn } from './clocks.js';
import {
  deadPort,
  emptyPage,
  type Received,
  type Reply,
  type ScriptedService,
  scriptedService,
  serviceOptions,
  testClient,
} from './scripted-service.js';

const list = indexesPageOperation({});
const bearer = ({ headers }: Received) => headers.authorization?.replace('Bearer ', '');
const bearers = ({ received }: ScriptedService) => received.map(bearer);

describe('OAuth client credentials', () => {
  const clientSecret = 'client-secret-&+ä';
  const auth = { type: 'client_credentials', clientId: 'client/1', clientSecret: new Secret(clientSecret) } as const;
  const isExchange = ({ url }: Received) => url.pathname.endsWith('/api/v0/oauth2/token');
  const exchanges = ({ received }: ScriptedService) => received.filter(isExchange);

  /** Issues `token-1`, `token-2`, …; accepts only those in `valid`. */
  function issuer(expiresIn: unknown, valid: (token: string) => boolean = () => true): Reply {
    let issued = 0;
    return (response, request) => {
      if (isExchange(request)) {
        issued += 1;
        const body = { access_token: `token-${issued}`, expires_in: expiresIn, token_type: 'Bearer' };
        response.end(JSON.stringify(body));
      } else {
        response.statusCode = valid(bearer(request) ?? '') ? 200 : 401;
        response.end('{"data":[]}');
      }
    };
  }

  it('are exchanged as a form with the tenant header, once for any number of requests', async () => {
    const service = await scriptedService(issuer(3_600));
    const options = serviceOptions(`${service.baseUrl}/gate`, { auth, oauthTenantHeader: 'X-Brand-Tenant' });
    const { send } = testClient(options);
    await Promise.all(Array.from({ length: 50 }, () => send(list)));
    const [exchange, ...more] = exchanges(service);
    expect(more).toEqual([]);
    expect(exchange?.method).toBe('POST');
    expect(exchange?.url.pathname).toBe('/gate/api/v0/oauth2/token');
    expect(exchange?.headers).toMatchObject({
      'x-brand-tenant': 'acme',
      'content-type': 'application/x-www-form-urlencoded',
    });
    expect(exchange?.headers.authorization).toBeUndefined();
    expect(Object.fromEntries(new URLSearchParams(exchange?.body))).toEqual({
      grant_type: 'client_credentials',
      client_id: 'client/1',
      client_secret: clientSecret,
    });
  });

  it.each([
    [3_600, 3_539_999, 3_540_000],
    ['3600', 3_539_999, 3_540_000],
    [5, 3_999, 4_000],
    [60, 47_999, 48_000],
  ])(
    'are exchanged again before a token of %s seconds expires, while the old one is still used',
    async (life, early, due) => {
      const service = await scriptedService(issuer(life));
      const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
      await send(list);
      clock.jump(early);
      await send(list);
      expect(exchanges(service)).toHaveLength(1);
      clock.jump(due - early);
      await send(list);
      while (exchanges(service).length < 2) await turn();
      await expect.poll(() => send(list).then(() => bearers(service).at(-1))).toBe('token-2');
      expect(
        bearers(service)
          .filter((token) => token !== undefined)
          .slice(0, 3),
      ).toEqual(['token-1', 'token-1', 'token-1']);
    },
  );

  it('are exchanged before the next request if the token has expired', async () => {
    const service = await scriptedService(issuer(5));
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    for (let n = 0; n < 3; n += 1) {
      await send(list);
      clock.jump(5_000);
    }
    expect(bearers(service).filter((token) => token !== undefined)).toEqual(['token-1', 'token-2', 'token-3']);
  });

  it.each([undefined, 0, -1, 'soon'])('keep a token until it is refused if expires_in is %j', async (life) => {
    const service = await scriptedService(issuer(life));
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    clock.jump(1e10);
    await send(list);
    expect(exchanges(service)).toHaveLength(1);
  });

  it('go by the claims of the token if expires_in is missing', async () => {
    const token = new UnsecuredJWT({}).setIssuedAt(1_000).setExpirationTime(1_100).encode();
    const service = await scriptedService((response, request) =>
      response.end(isExchange(request) ? JSON.stringify({ access_token: token }) : '{"data":[]}'),
    );
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    clock.jump(100_000);
    await send(list);
    expect(exchanges(service)).toHaveLength(2);
  });

  it('are exchanged once when several requests are answered 401, and each is sent once more', async () => {
    let valid = 'token-1';
    const service = await scriptedService(issuer(3_600, (token) => token === valid));
    const { send, meter } = testClient(serviceOptions(service.baseUrl, { auth, concurrency: 50 }));
    await send(list);
    valid = 'token-2';
    await Promise.all(Array.from({ length: 50 }, () => send(list)));
    expect(exchanges(service)).toHaveLength(2);
    // The others waited for their turn, and were sent with the new token.
    expect(meter).toMatchObject({ requests: 59, retries: 8 });
  });

  it('are not exchanged again and again if new tokens are refused too', async () => {
    const service = await scriptedService(issuer(3_600, () => false));
    const { failure, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    expect(await failure(list)).toMatchObject({ code: 'unauthorized', kind: 'auth' });
    expect(exchanges(service)).toHaveLength(3);
    expect(service.received).toHaveLength(6);
    expect(clock.slept).toEqual([2_000]);
  });

  it('are exchanged once more after a pause if the new token is refused too, as while keys rotate', async () => {
    const service = await scriptedService(issuer(3_600, (token) => token !== 'token-1' && token !== 'token-2'));
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    expect(exchanges(service)).toHaveLength(3);
    expect(clock.slept).toEqual([2_000]);
  });

  it('may be refused any number of times if other failures are between', async () => {
    let sent = 0;
    const service = await scriptedService((response, request) => {
      if (!isExchange(request)) sent += 1;
      const isRefused = !isExchange(request) && sent <= 12;
      response.statusCode = !isRefused ? 200 : sent % 2 === 0 ? 503 : 401;
      response.end(JSON.stringify({ data: [], access_token: `token-${sent}` }));
    });
    await testClient(serviceOptions(service.baseUrl, { auth })).send(list);
    expect(exchanges(service)).toHaveLength(7);
  });

  /** An endpoint that is away for a time of the client's clock, and a service that refuses all tokens before it is back. */
  async function awayFor(ms: number, options: { readonly issuesFirst: boolean }) {
    let now = () => 0;
    const isAway = () => now() > 0 && now() < ms;
    let issued = 0;
    const service = await scriptedService((response, request) => {
      const isIssued = isExchange(request) && (!isAway() || (options.issuesFirst && issued === 0));
      if (isIssued) issued += 1;
      const isGood = isExchange(request) ? isIssued : bearer(request) !== 'token-1' || !options.issuesFirst;
      response.statusCode = isGood ? 200 : isExchange(request) ? 503 : 401;
      response.end(JSON.stringify(isIssued ? { access_token: `token-${issued}`, expires_in: 3_600 } : { data: [] }));
    });
    const client = testClient(serviceOptions(service.baseUrl, { auth }));
    const begin = client.clock.monotonic();
    now = () => client.clock.monotonic() - begin + 1;
    return { ...client, service };
  }

  it.each([false, true])(
    'wait for an endpoint that is away for four minutes, after a first token: %s',
    async (issuesFirst) => {
      const { send, service } = await awayFor(240_000, { issuesFirst });
      await Promise.all(Array.from({ length: 16 }, () => send(list)));
      expect(exchanges(service).length).toBeLessThan(50);
      expect(service.received.length).toBeLessThan(100);
    },
  );

  it.each([false, true])(
    'of an endpoint that stays away are no failed login, after a first token: %s',
    async (issuesFirst) => {
      const { failure } = await awayFor(3_600_000, { issuesFirst });
      const error = await failure(list);
      expect(error).toMatchObject({ code: 'service_unavailable', kind: 'retryable' });
      expect(error.message).toMatch(/since .* requests\. Last: POST \/api\/v0\/oauth2\/token failed with 503/);
    },
  );

  it.each([400, 401, 403])('that are refused with %i are reported as such, without the secret', async (status) => {
    const message = `client_secret=${encodeURIComponent(clientSecret)} or ${clientSecret} is wrong`;
    const service = await scriptedService({ status, body: { message, request_id: 'r-1', trace_id: 't-1' } });
    const error = await testClient(serviceOptions(service.baseUrl, { auth })).failure(list);
    // No status: it is not the operation that was refused.
    expect(error).toMatchObject({ code: 'oauth_failed', kind: 'auth', requestId: 'r-1', traceId: 't-1' });
    expect((error as Error & { status?: number }).status).toBeUndefined();
    expect(error.message).toBe(
      `POST /api/v0/oauth2/token was refused with ${status}: client_secret=[secret] or [secret] is wrong (request id r-1, trace id t-1)`,
    );
    expect(JSON.stringify({ ...error, stack: error.stack })).not.toContain(clientSecret);
    expect(service.received).toHaveLength(1);
  });

  it('that are refused in the words of OAuth are reported in them', async () => {
    const body = { error: 'invalid_client', error_description: `no client has the secret ${clientSecret}` };
    const service = await scriptedService({ status: 401, body });
    const error = await testClient(serviceOptions(service.baseUrl, { auth })).failure(list);
    expect(error.message).toBe(
      'POST /api/v0/oauth2/token was refused with 401: invalid_client: no client has the secret [secret]',
    );
  });

  it('are exchanged again after 5xx, 429 and responds without a token', async () => {
    const service = await scriptedService(
      { status: 503, headers: { 'retry-after': '3' } },
      { status: 429 },
      { status: 200, body: { token: 'x' } },
      (response) => response.destroy(),
      issuer(60),
    );
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    expect(exchanges(service)).toHaveLength(5);
    expect(clock.slept[0]).toBe(3_000);
  });

  it('are reported as failed if no exchange returns a token', async () => {
    const service = await scriptedService({ status: 200, body: { access_token: '' } });
    const error = await testClient(serviceOptions(service.baseUrl, { auth })).failure(list);
    expect(error).toMatchObject({ code: 'oauth_failed', kind: 'retryable' });
    expect(exchanges(service).length).toBeLessThan(20);
  });

  it('keep using the old token while its renewal fails', async () => {
    const service = await scriptedService(issuer(100));
    const { send, failure, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    service.script((response, request) => {
      response.statusCode = isExchange(request) ? 403 : 200;
      response.end('{"data":[]}');
    });
    clock.jump(85_000);
    await send(list);
    while (exchanges(service).length < 2) await turn();
    await send(list);
    expect(bearers(service).filter((token) => token !== undefined)).toEqual(['token-1', 'token-1', 'token-1']);
    clock.jump(20_000);
    expect(await failure(list)).toMatchObject({ code: 'oauth_failed', kind: 'auth' });
  });

  it('are waited for no longer than the caller wants, and the other callers still get their token', async () => {
    let finish = () => {};
    const issue = issuer(60);
    const service = await scriptedService((response, request) => {
      if (!isExchange(request)) response.end('{"data":[]}');
      else finish = () => (issue as (...of: unknown[]) => void)(response, request);
    });
    const { client, send, meter } = testClient(serviceOptions(service.baseUrl, { auth }));
    const impatient = new AbortController();
    const input = client.send(list, (body) => body, { signal: impatient.signal, meter });
    const waiting = send(list);
    while (exchanges(service).length === 0) await turn();
    impatient.abort();
    await expect(input).rejects.toMatchObject({ code: 'interrupted' });
    finish();
    await waiting;
    expect(exchanges(service)).toHaveLength(1);
  });
});

describe('A token endpoint on its own host', () => {
  const issued = { status: 200, body: { access_token: 'issued-token', expires_in: 3600 } };
  const login = (baseUrl: string, oauthTokenUrl: string) =>
    serviceOptions(baseUrl, {
      auth: { type: 'client_credentials', clientId: 'the-id', clientSecret: new Secret('the-secret') },
      oauthTokenUrl,
    });

  it('alone gets the credentials, and only the service gets the token', async () => {
    const [service, endpoint] = [await scriptedService(emptyPage), await scriptedService(issued)];
    await testClient(login(`${service.baseUrl}/base`, `${endpoint.baseUrl}/its/own/path`)).send(list);
    expect(
      endpoint.received.map(({ method, url, headers }) => [method, url.pathname, headers['x-service-tenant']]),
    ).toEqual([['POST', '/its/own/path', 'acme']]);
    expect(JSON.stringify(service.received)).not.toMatch(/the-secret|the-id|x-service-tenant/);
    expect(JSON.stringify(endpoint.received)).not.toContain('issued-token');
    expect(bearers(service)).toEqual(['issued-token']);
  });

  it('is named by its option where it fails', async () => {
    const service = await scriptedService(emptyPage);
    const remote = { status: 307, headers: { location: 'https://evil.example/login?x=1' } };
    for (const [reply, hint] of [
      [{ status: 404 }, /`oauth_token_url`/],
      [remote, /`oauth_token_url` to https:\/\/evil\.example\/login if/],
    ] as const) {
      const endpoint = await scriptedService(reply);
      const error = await testClient(login(service.baseUrl, `${endpoint.baseUrl}/token`)).failure(list);
      expect(error).toMatchObject({
        message: expect.stringContaining('POST /token'),
        hint: expect.stringMatching(hint),
      });
      expect(endpoint.received).toHaveLength(1);
    }
    const dead = `http://127.0.0.1:${await deadPort()}/token`;
    const error = await testClient(login(service.baseUrl, dead)).failure(list);
    expect(error).toMatchObject({ code: 'unreachable', hint: expect.stringContaining('`oauth_token_url`') });
    expect(service.received).toEqual([]);
  });
});

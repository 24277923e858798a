import { expect } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { Secret } from '../../../src/core/secret.js';
import {
  emptyPage,
  type Received,
  scriptedService,
  serviceOptions,
  testClient,
} from '../../unit/api/scripted-service.js';
import { type HttpResult, readResponse } from '../local-service/caller.js';
import { type Checks, claimsOf, type Key, Setting } from './setting.js';

type Form = Record<string, string | undefined>;
type Headers = Record<string, string | undefined>;

const defined = (values: Form) =>
  Object.entries(values).filter(([, value]) => value !== undefined) as [string, string][];

/** A correct exchange, apart from these changes. */
function exchange({ service }: Setting, key: Key, form: Form = {}, headers: Headers = {}): Promise<HttpResult> {
  const right = { grant_type: 'client_credentials', client_id: key.clientId, client_secret: key.clientSecret };
  const sent = { 'x-service-tenant': key.tenant, 'content-type': 'application/x-www-form-urlencoded', ...headers };
  const body = new URLSearchParams(defined({ ...right, ...form })).toString();
  return fetch(`${service.url}/api/v0/oauth2/token`, { method: 'POST', headers: defined(sent), body }).then(
    readResponse,
  );
}

/** The request that our client sends to get a token. */
async function clientExchange(changes: { oauthTenantHeader?: string } = {}): Promise<Received> {
  const service = await scriptedService({ status: 200, body: { access_token: 'a.b.c', expires_in: 60 } }, emptyPage);
  const auth = { type: 'client_credentials', clientId: 'c&d', clientSecret: new Secret('s=+ä') } as const;
  await testClient(serviceOptions(service.baseUrl, { auth, ...changes })).send(indexesPageOperation({}));
  return service.received[0] as Received;
}

/** The token endpoint. */
export const section4Token: Checks = {
  '4.9.text.1': async (setting) => {
    const key = await setting.key();
    const { access_token: token } = (await exchange(setting, key)).body;
    expect(await key.accepted(token)).toEqual([true]);
    const { method, url } = await clientExchange();
    expect([method, url.pathname]).toEqual(['POST', '/api/v0/oauth2/token']);
  },
  '4.9.rows.Content-Type': async (setting) => {
    const key = await setting.key();
    expect((await exchange(setting, key)).status).toBe(200);
    expect((await exchange(setting, key, {}, { 'content-type': 'application/json' })).status).toBe(400);
    const { headers, body } = await clientExchange();
    expect(headers['content-type']).toBe('application/x-www-form-urlencoded');
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      grant_type: 'client_credentials',
      client_id: 'c&d',
      client_secret: 's=+ä',
    });
  },
  '4.9.rows.Tenant header': async (setting) => {
    const key = await setting.key({ tenant: 'acme-sb-49' });
    expect((await exchange(setting, key)).status).toBe(200);
    expect((await exchange(setting, key, {}, { 'x-service-tenant': undefined })).status).toBe(400);
    expect((await exchange(setting, key, {}, { 'x-service-tenant': 'acme' })).status).toBe(401);
    expect((await clientExchange()).headers['x-service-tenant']).toBe('acme');
    expect((await clientExchange({ oauthTenantHeader: 'X-Brand' })).headers['x-brand']).toBe('acme');
    const own = await Setting.own({ profiles: 1, oauthTenantHeader: 'X-Brand' });
    expect((await exchange(own, await own.key(), {}, { 'x-brand': 'acme' })).status).toBe(200);
  },
  '4.9.rows.grant_type': async (setting) => {
    const key = await setting.key();
    for (const grant_type of [undefined, '', 'password']) {
      expect((await exchange(setting, key, { grant_type })).status).toBe(400);
    }
    expect(new URLSearchParams((await clientExchange()).body).get('grant_type')).toBe('client_credentials');
  },
  '4.9.rows.client_id': async (setting) => {
    const [key, other] = [await setting.key(), await setting.key()];
    expect((await exchange(setting, key, { client_id: undefined })).status).toBe(400);
    expect((await exchange(setting, key, { client_id: other.clientId })).status).toBe(401);
  },
  '4.9.rows.client_secret': async (setting) => {
    const key = await setting.key();
    expect((await exchange(setting, key, { client_secret: undefined })).status).toBe(400);
    const wrong = await exchange(setting, key, { client_secret: `${key.clientSecret}x` });
    expect([wrong.status, wrong.body.status]).toEqual([401, 401]);
    expect(wrong.text).not.toContain(key.clientSecret);
  },
  '4.9.text.3': async (setting) => {
    const { status, body } = await exchange(setting, await setting.key());
    expect([status, Object.keys(body), body.token_type]).toEqual([
      200,
      ['access_token', 'expires_in', 'token_type'],
      'Bearer',
    ]);
    const { iat, exp } = claimsOf(body.access_token) as { iat: number; exp: number };
    expect(Number.isInteger(body.expires_in)).toBe(true);
    expect(body.expires_in).toBe(exp - iat);
  },
};

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../../fixtures/workspace.js';

/** See http-servers.test.ts: the folder also needs `oidc-provider@9.13.3`. */
const folder = process.env.CDSYNC_TEST_HTTP_SERVERS ?? '';
const secret = 's%cret+with/odd=chars&1';

/** An OAuth 2 server, and an API beside it that asks the server's own store about each token. Its clients wait on `/test/…`. */
const program = `import('oidc-provider').then(({ default: Provider }) => {
  const scope = 'openid offline_access write read';
  const client = { client_secret: ${JSON.stringify(secret)}, scope };
  const machine = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
  const provider = new Provider('http://127.0.0.1', {
    clients: [
      { ...client, ...machine, client_id: 'header' },
      { ...client, ...machine, client_id: 'body', token_endpoint_auth_method: 'client_secret_post' },
      { ...client, client_id: 'person', grant_types: ['refresh_token', 'authorization_code'], redirect_uris: ['http://127.0.0.1/'] },
    ],
    scopes: scope.split(' '),
    features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
    ttl: { ClientCredentials: () => +process.argv[1], AccessToken: () => +process.argv[1], RefreshToken: () => 3600, Grant: () => 3600 },
    rotateRefreshToken: true,
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  });
  const find = async (token) => (await provider.ClientCredentials.find(token)) ?? provider.AccessToken.find(token);
  const log = { logins: 0, bodies: [], denied: 0, revokeAfter: -1 };
  provider.on('grant.success', () => (log.logins += 1));
  const handle = provider.callback();
  const server = require('node:http').createServer(async (request, response) => {
    const { url, headers } = request;
    if (url === '/test/log') return response.end(JSON.stringify(log));
    if (url === '/test/revoke') return response.end(String(Object.assign(log, { revokeAfter: 1 })));
    if (url === '/test/refresh-token') {
      const client = await provider.Client.find('person');
      const grant = new provider.Grant({ accountId: 'anna', clientId: 'person' });
      grant.addOIDCScope(scope);
      const of = { accountId: 'anna', client, grantId: await grant.save(), scope, gty: 'authorization_code' };
      return response.end(await new provider.RefreshToken(of).save());
    }
    if (url !== '/api') return handle(request, response);
    const token = await find((headers.authorization ?? '').replace('Bearer ', ''));
    const isGood = token !== undefined && !token.isExpired && token.scope.includes('write');
    if (!isGood) log.denied += 1;
    if (!isGood) return response.writeHead(401).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    log.bodies.push(body);
    if (log.revokeAfter === log.bodies.length) await token.destroy();
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));
});`;

interface Log {
  readonly logins: number;
  readonly bodies: readonly string[];
  readonly denied: number;
}

describe.skipIf(folder === '' || !existsSync(join(folder, 'node_modules/oidc-provider')))(
  'a login at oidc-provider',
  () => {
    let space: Workspace;
    let child: ChildProcess;
    let url: string;
    let jobs = 0;
    beforeAll(async () => {
      space = await Workspace.open({ profiles: 10 });
      return () => space.close();
    });
    afterEach(() => void child.kill());

    async function start(seconds = 600): Promise<void> {
      child = spawn(process.execPath, ['-e', program, String(seconds)], {
        cwd: folder,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
      for await (const line of lines)
        if (line.startsWith('port ')) {
          url = `http://127.0.0.1:${line.slice(5)}`;
          return;
        }
    }
    const ask = async (path: string) => (await fetch(`${url}/test/${path}`)).text();
    const log = async () => {
      const { bodies, ...rest } = JSON.parse(await ask('log')) as Log;
      return { ...rest, bodies: [...bodies].sort() };
    };

    /** A job whose four people go to the API one by one. */
    async function configured(oauth2: Readonly<Record<string, unknown>>, more: Readonly<Record<string, unknown>> = {}) {
      jobs += 1;
      const job = `login${jobs}`;
      const crm = {
        ...{ name: 'crm', connector: 'http', streams: ['people'], mode: 'upsert', url: `${url}/api`, body: '{{ id }}' },
        ...{
          auth: { oauth2: { token_url: `${url}/token`, client_secret: secret, scope: 'write', ...oauth2 } },
          ...more,
        },
      };
      await space.configure(job, [{ name: 'people', source: 'index_profiles', index: 'people' }], {
        job: { destinations: [crm] },
      });
      await serve(['a', 'b', 'c', 'd']);
      await space.runWell(job, ['--no-push']);
      return job;
    }
    const serve = (ids: readonly string[]) =>
      space.control('profiles', {
        index: 'people',
        records: ids.map((id) => JSON.stringify({ id, index_id: 'people', attributes: { tier: 'gold' } })),
      });
    const push = (job: string) => space.cdsync(['push', `${job}.json`, '--json', '--quiet']);
    const all = ['"a"', '"b"', '"c"', '"d"'];

    it.each([{ client_id: 'header' }, { client_id: 'body', send: 'body' }])(
      'is made once for all requests: %j',
      async (client) => {
        await start();
        const job = await configured(client);
        expect((await push(job)).code).toBe(0);
        expect(await log()).toMatchObject({ logins: 1, denied: 0, bodies: all });
      },
    );

    it('with a wrong secret ends the delivery, and shows no secret', async () => {
      await start();
      const job = await configured({ client_id: 'header', client_secret: 'wr0ng&secret' });
      const { code, stdout, stderr } = await push(job);
      expect(code).toBe(4);
      expect(stdout).toContain('destination_login');
      expect(stdout).toContain('(invalid_client)');
      expect(stdout + stderr).not.toMatch(/wr0ng/);
      expect(await log()).toMatchObject({ logins: 0, bodies: [] });
    });

    it('is renewed before the token ends', async () => {
      // A busy machine takes a second from the check of a token to the server's.
      await start(6);
      const job = await configured({ client_id: 'header' }, { rate: { requests: 1, per: '2s' } });
      expect((await push(job)).code).toBe(0);
      const { logins, denied, bodies } = await log();
      expect([denied, bodies]).toEqual([0, all]);
      expect(logins).toBeGreaterThan(1);
    });

    it('is made again when the token is revoked, and each row arrives once', async () => {
      await start();
      const job = await configured({ client_id: 'header' }, { parallel: 1 });
      await ask('revoke');
      expect((await push(job)).code).toBe(0);
      expect(await log()).toMatchObject({ logins: 2, denied: 1, bodies: all });
    });

    it('with a refresh token continues with the one that the server has replaced it by, until that is used by another', async () => {
      await start();
      const token = await ask('refresh-token');
      const job = await configured({ client_id: 'person', grant: 'refresh_token', refresh_token: token });
      expect((await push(job)).code).toBe(0);
      await serve(['a', 'b', 'c', 'd', 'e']);
      await space.runWell(job, ['--no-push']);
      expect((await push(job)).code).toBe(0);
      expect(await log()).toMatchObject({ logins: 2, denied: 0, bodies: [...all, '"e"'] });
      // A token that is used twice was stolen: the server ends them all.
      const authorization = `Basic ${Buffer.from(`person:${encodeURIComponent(secret)}`).toString('base64')}`;
      const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token });
      expect((await fetch(`${url}/token`, { method: 'POST', headers: { authorization }, body })).status).toBe(400);
      await serve(['a', 'b', 'c', 'd', 'e', 'f']);
      await space.runWell(job, ['--no-push']);
      const { code, stdout } = await push(job);
      expect([code, stdout]).toEqual([4, expect.stringContaining('(invalid_grant)')]);
      expect(stdout).not.toContain(token);
    });
  },
);

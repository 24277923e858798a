import { type ChildProcess, spawn } from 'node:child_process';
import { createPublicKey, type JsonWebKey, verify } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CuttingProxy } from '../../fixtures/cutting-proxy.js';
import { Workspace } from '../../fixtures/workspace.js';

/**
 * The folder of the servers of other projects, if they are asked for: `npm install --prefix FOLDER express@4 express-pouchdb@4.2.0
 * pouchdb-core@7 pouchdb-adapter-memory@7 pouchdb-mapreduce@7 pouchdb-replication@7 oauth2-mock-server@8.2.3`.
 */
const folder = process.env.CDSYNC_TEST_HTTP_SERVERS ?? '';

const couch = `const plugins = ['adapter-memory', 'mapreduce', 'replication'].map((name) => require('pouchdb-' + name));
const PouchDB = plugins.reduce((built, plugin) => built.plugin(plugin), require('pouchdb-core'));
const app = require('express')();
const options = { mode: 'minimumForPouchDB', inMemoryConfig: true };
app.use('/', require('express-pouchdb')(PouchDB.defaults({ adapter: 'memory' }), options));
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));`;
const oauth = `import('oauth2-mock-server').then(async ({ OAuth2Server }) => {
  const server = new OAuth2Server();
  await server.issuer.keys.generate('RS256');
  await server.start(0, '127.0.0.1');
  console.log(server.address().port);
});`;

async function start(program: string): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const child = spawn(process.execPath, ['-e', program], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { child, url: `http://127.0.0.1:${port}` };
}

/** Lets requests through to a server if they have a token that the issuer has signed. */
async function gateway(to: string, issuer: string): Promise<Server> {
  const { keys } = (await (await fetch(`${issuer}/jwks`)).json()) as { keys: JsonWebKey[] };
  const key = createPublicKey({ key: keys[0] as JsonWebKey, format: 'jwk' });
  const server = createServer((received, response) => {
    const token = (received.headers.authorization ?? '').replace('Bearer ', '').split('.');
    const [head = '', payload = '', signature = ''] = token;
    if (!verify('RSA-SHA256', Buffer.from(`${head}.${payload}`), key, Buffer.from(signature, 'base64url')))
      return response.writeHead(401).end();
    const { method = 'GET', url = '/', headers } = received;
    const passed = request(`${to}${url}`, { method, headers }, (reply) =>
      reply.pipe(response.writeHead(reply.statusCode ?? 502, reply.headers)),
    );
    return received.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

describe.skipIf(folder === '')('CouchDB as PouchDB has it, behind a login of OAuth 2', () => {
  let space: Workspace;
  let servers: readonly { readonly child: ChildProcess; readonly url: string }[];
  let front: Server;
  let proxy: CuttingProxy;
  beforeAll(async () => {
    space = await Workspace.open({ profiles: 10 });
    servers = await Promise.all([start(couch), start(oauth)]);
    front = await gateway(servers[0]?.url ?? '', servers[1]?.url ?? '');
    proxy = await CuttingProxy.open(`http://127.0.0.1:${(front.address() as AddressInfo).port}`);
    await fetch(`${servers[0]?.url}/changes`, { method: 'PUT' });
  });
  afterAll(async () => {
    await proxy.close();
    front.close();
    for (const { child } of servers) child.kill();
    await space.close();
  });

  const serve = (people: Readonly<Record<string, string>>) =>
    space.control('profiles', {
      index: 'people',
      records: Object.entries(people).map(([id, tier]) =>
        JSON.stringify({ id, index_id: 'people', attributes: { tier } }),
      ),
    });
  /** The changes that the server has: operation, member and tier. */
  async function changes(): Promise<string[]> {
    const list = (await (await fetch(`${servers[0]?.url}/changes/_all_docs?include_docs=true`)).json()) as {
      rows: { doc: { op: string; member: string; tier: string | null } }[];
    };
    return list.rows.map(({ doc: { op, member, tier } }) => `${op} ${member} ${tier ?? '-'}`).sort();
  }
  const push = async () => {
    const { code, stdout } = await space.cdsync(['push', 'couch.json', '--json', '--quiet']);
    return { code, delivery: code === 0 && stdout === '' ? undefined : JSON.parse(stdout).jobs[0].destinations[0] };
  };

  it('takes a first load whose first response is lost, a day of changes after an outage, and the delete of a forgotten person, each once', async () => {
    const destination = {
      ...{ name: 'couch', connector: 'http', streams: ['people'], mode: 'append' },
      url: `${proxy.url}/changes/_bulk_docs`,
      auth: { oauth2: { token_url: `${servers[1]?.url}/token`, client_id: 'cdsync', client_secret: 'secret-1' } },
      body: { _id: '{{ _id }}', _rev: '1-{{ _id }}', member: '{{ id }}', op: '{{ _op }}', tier: '{{ tier }}' },
      // A document with a revision of the request is stored once, however often it is sent.
      batch: { records: 4, body: { docs: '{{ records }}', new_edits: false } },
      response: { results: { path: '', key: 'id', equals: '{{ _id }}', refused: 'error', reason: 'reason' } },
      delete: { body: { _id: '{{ _id }}', _rev: '1-{{ _id }}', member: '{{ id }}', op: '{{ _op }}' } },
    };
    await space.configure(
      'couch',
      [
        {
          ...{ name: 'people', source: 'index_profiles', index: 'people' },
          guards: { max_deleted: 'off', max_changed: 'off' },
        },
      ],
      { job: { destinations: [destination] } },
    );
    await serve({ a: 'gold', b: 'silver', c: 'gold', d: 'silver', e: 'gold' });
    await space.runWell('couch', ['--no-push']);
    // The server has the first batch, and its response is lost.
    proxy.cut = { request: /^POST/, at: 'response', after: 0, times: 1 };
    expect((await push()).code).toBe(0);
    expect(proxy.cuts).toHaveLength(1);
    const first = ['insert a gold', 'insert b silver', 'insert c gold', 'insert d silver', 'insert e gold'];
    expect(await changes()).toEqual(first);

    await serve({ a: 'silver', b: 'silver', d: 'silver', e: 'gold', f: 'gold' });
    await space.runWell('couch', ['--no-push']);
    proxy.cut = { request: /^POST/, at: 'request', after: 0 };
    expect((await push()).delivery).toMatchObject({ status: 'failed', error: { code: 'destination_unavailable' } });
    proxy.cut = undefined;
    expect((await push()).code).toBe(0);
    const second = [...first, 'update a silver', 'insert f gold', 'delete c -'].sort();
    expect(await changes()).toEqual(second);

    await space.cdsync(['forget', 'couch.json', 'people', 'b', '--yes']);
    expect((await push()).code).toBe(0);
    expect(await changes()).toEqual([...second, 'delete b -'].sort());
    expect((await push()).code).toBe(0);
    expect(await changes()).toHaveLength(second.length + 1);
  }, 300_000);
});

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CuttingProxy } from '../../fixtures/cutting-proxy.js';
import { freePort } from '../../fixtures/free-port.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Workspace } from '../../fixtures/workspace.js';

/** Servers of other projects. `.ci/parse`, `.ci/kinto` and `.ci/opensearch` install them into the cache of the tests. */
interface RestServer {
  readonly url: string;
  /** The destination's options but name, streams and tls. @param url of the server, or of a proxy before it */
  readonly options: (url: string) => Readonly<Record<string, unknown>>;
  /** All records that the server has: id and points. */
  readonly records: () => Promise<Map<string, number>>;
  readonly close: () => Promise<void>;
}

const cache = (name: string) => join(homedir(), '.cache', 'cdsync-test', name);
const stopped = async (child: ChildProcess) => {
  child.kill();
  if (child.exitCode === null) await once(child, 'close');
};

async function untilReady(url: string): Promise<void> {
  for (let tries = 0; !(await fetch(url).catch(() => undefined)); tries += 1) {
    if (tries > 300) throw new Error(`${url} does not respond`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function startParse(): Promise<RestServer> {
  const database = await PostgresServer.start();
  const port = await freePort();
  const program = `const { ParseServer } = require('parse-server');
    const server = new ParseServer({ databaseURI: '${database.url()}', appId: 'app', masterKey: 'master-key-1', allowCustomObjectId: true,
      serverURL: 'http://127.0.0.1:${port}/parse', allowClientClassCreation: true, silent: true, logsFolder: null,
      cloud: () => Parse.Cloud.beforeSave('people', ({ object }) => { if (object.get('points') > 1000) throw 'too many points'; }) });
    server.start().then(() => require('express')().use('/parse', server.app).listen(${port}, '127.0.0.1', () => console.log('ready')));`;
  const child = spawn(process.execPath, ['-e', program], { cwd: cache('parse'), stdio: ['ignore', 'pipe', 'inherit'] });
  await once(createInterface(child.stdout), 'line');
  const url = `http://127.0.0.1:${port}`;
  const headers = { 'x-parse-application-id': 'app', 'x-parse-master-key': 'master-key-1' };
  return {
    url,
    options: (at) => {
      const record = `${at}/parse/classes/people/{{ id }}`;
      const body = { points: '{{ points }}' };
      return {
        ...{ url: `${at}/parse/classes/people`, headers, body: { objectId: '{{ id }}', ...body } },
        response: { reason: 'error' },
        update: { method: 'put', url: record, body },
        delete: { method: 'delete', url: record, response: { accepted: ['2xx', '404'] } },
      };
    },
    records: async () => {
      const response = await fetch(`${url}/parse/classes/people?limit=1000`, { headers });
      const { results } = (await response.json()) as { results: { objectId: string; points: number }[] };
      return new Map(results.map(({ objectId, points }) => [objectId, points]));
    },
    close: async () => {
      await stopped(child);
      await database.stop();
    },
  };
}

async function startKinto(folder: string): Promise<RestServer> {
  const port = await freePort();
  const backends = ['storage', 'cache', 'permission'].map(
    (kind) => `kinto.${kind}_backend = kinto.core.${kind}.memory`,
  );
  const settings = [
    ...['[app:main]', 'use = egg:kinto', ...backends, 'kinto.bucket_create_principals = system.Everyone'],
    ...['kinto.experimental_collection_schema_validation = true', 'kinto.userid_hmac_secret = any-text'],
    ...['multiauth.policies = basicauth'],
    ...['[server:main]', 'use = egg:waitress#main', 'host = 127.0.0.1', `port = ${port}`],
  ];
  const file = join(folder, 'kinto.ini');
  await writeFile(file, settings.join('\n'));
  const child = spawn(join(cache('kinto'), 'bin', 'kinto'), ['start', '--ini', file, '--port', String(port)], {
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(`${url}/v1/`);
  const headers = { authorization: `Basic ${Buffer.from('cdsync:secret-1').toString('base64')}` };
  const put = (path: string, data: unknown) =>
    fetch(`${url}/v1${path}`, {
      method: 'PUT',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ data }),
    });
  await put('/buckets/crm', {});
  await put('/buckets/crm/collections/people', { schema: { properties: { points: { maximum: 1000 } } } });
  const list = `${url}/v1/buckets/crm/collections/people/records`;
  return {
    url,
    options: (at) => ({
      url: `${at}/v1/buckets/crm/collections/people/records/{{ id }}`,
      ...{ method: 'put', auth: { basic: { user: 'cdsync', password: 'secret-1' } } },
      ...{ body: { data: { points: '{{ points }}' } }, response: { reason: 'message' } },
      delete: { method: 'delete', response: { accepted: ['2xx', '404'] } },
    }),
    records: async () => {
      const { data } = (await (await fetch(list, { headers })).json()) as { data: { id: string; points: number }[] };
      return new Map(data.map(({ id, points }) => [id, points]));
    },
    close: () => stopped(child),
  };
}

async function startOpensearch(folder: string): Promise<RestServer> {
  const port = await freePort();
  const words = ['-Xmx512m', '-cp', join(cache('opensearch'), 'lib', '*'), join(cache('opensearch'), 'Server.java')];
  const child = spawn('java', [...words, join(folder, 'opensearch'), String(port)], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(createInterface(child.stdout), 'line');
  const url = `http://127.0.0.1:${port}`;
  // 127 at most.
  await fetch(`${url}/people`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ mappings: { properties: { points: { type: 'byte' } } } }),
  });
  return {
    url,
    options: (at) => ({
      ...{ url: `${at}/people/_bulk`, format: 'ndjson', batch: { records: 7 } },
      body: [{ index: { _id: '{{ id }}' } }, { points: '{{ points }}' }],
      response: { results: { path: 'items', entry: '*', key: '_id', refused: 'error', reason: 'error.reason' } },
      delete: { body: [{ delete: { _id: '{{ id }}' } }] },
    }),
    records: async () => {
      await fetch(`${url}/people/_refresh`, { method: 'POST' });
      const { hits } = (await (await fetch(`${url}/people/_search?size=1000`)).json()) as {
        hits: { hits: { _id: string; _source: { points: number } }[] };
      };
      return new Map(hits.hits.map(({ _id, _source }) => [_id, _source.points]));
    },
    close: () => stopped(child),
  };
}

/** Each with a file that is there once it is installed. */
const servers = [
  { name: 'parse', start: startParse, file: 'parse/node_modules/parse-server/package.json' },
  { name: 'kinto', start: startKinto, file: 'kinto/bin/kinto' },
  { name: 'opensearch', start: startOpensearch, file: 'opensearch/lib' },
];
const missing = servers.filter(({ file }) => !existsSync(cache(file)));

it.skip.each(missing)('$name is not tried: .ci/$name installs it', () => undefined);

describe.each(servers.filter((server) => !missing.includes(server)))('$name', ({ start }) => {
  let space: Workspace;
  let server: RestServer;
  let proxy: CuttingProxy;
  beforeAll(async () => {
    space = await Workspace.open({ profiles: 10 });
    server = await start(space.folder);
    proxy = await CuttingProxy.open(server.url);
  }, 120_000);
  afterAll(async () => {
    await proxy.close();
    await server.close();
    await space.close();
  });

  it('equals a model after a first load, a bad record, a day of changes with an outage, and an erasure', async () => {
    const serve = (people: Readonly<Record<string, unknown>>) =>
      space.control('profiles', {
        index: 'people',
        records: Object.entries(people).map(([id, points]) =>
          JSON.stringify({ id, index_id: 'people', attributes: { points } }),
        ),
      });
    const push = async () => {
      const { stdout } = await space.cdsync(['push', 'rest.json', '--json', '--quiet']);
      return JSON.parse(stdout).jobs[0].destinations[0];
    };
    const stream = { name: 'people', source: 'index_profiles', index: 'people' };
    const guards = { max_deleted: 'off', max_changed: 'off' };
    const options = { name: 'rest', connector: 'http', ...server.options(proxy.url) };
    await space.configure('rest', [{ ...stream, guards }], {
      job: { destinations: [options] },
    });
    const first = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`p${String(n).padStart(2, '0')}`, n]));
    await serve({ ...first, p07: 7000 });
    await space.runWell('rest', ['--no-push']);
    const refused = { message: 'the receiver refuses 1 record of stream "people"' };
    expect(await push()).toMatchObject({ status: 'partial', refused: 1, error: refused });
    const model = new Map(Object.entries(first));
    model.delete('p07');
    expect(await server.records()).toEqual(model);
    const { stdout } = await space.cdsync(['rejects', 'rest.json', '--show-values', '--json']);
    expect(stdout).toContain('"p07"');

    const { p03: _, ...kept } = first;
    const second: Record<string, number> = { ...kept, p07: 70, p08: 80, q01: 101 };
    await serve(second);
    await space.runWell('rest', ['--no-push']);
    proxy.cut = { request: /^(POST|PUT|DELETE)/, at: 'request', after: 0 };
    expect(await push()).toMatchObject({ status: 'failed', error: { code: 'destination_unavailable' } });
    proxy.cut = undefined;
    expect(await push()).toMatchObject({ status: 'ok', refused: 0 });
    expect(await server.records()).toEqual(new Map(Object.entries(second)));

    await space.cdsync(['forget', 'rest.json', 'people', 'p05', '--yes']);
    expect(await push()).toMatchObject({ status: 'ok', refused: 0 });
    const { p05: __, ...left } = second;
    expect(await server.records()).toEqual(new Map(Object.entries(left)));
    expect(await push()).toMatchObject({ status: 'ok', rows: 0 });
  }, 300_000);
});

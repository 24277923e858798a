import { readFile, stat } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import { type Received, Receiver } from '../fixtures/webhook-server.js';
import { type Ended, Workspace } from '../fixtures/workspace.js';
import { isData } from './canary-commands.js';

const marker = 'kanarie';
/** With letters that each way of writing spells otherwise. */
const odd = (kind: string) => `${marker}-${kind}'"%+/=&<ü>\\$x`;
/** Of letters that a header may have. */
const plain = (kind: string) => `${marker}-${kind}'"%+/=&<>\\$x`;

const env = {
  BEARER: plain('bearer'),
  BASIC: odd('basic'),
  HEADER: plain('header'),
  QUERY: odd('query'),
  CLIENT: odd('client'),
  REFRESH: odd('refresh'),
  HOUSE: odd('house'),
  TRINO: odd('trino'),
  CATALOG: plain('catalog'),
  CATALOG_CLIENT: plain('catalog-client'),
  PG: `${odd('pg')}\nsecond ${marker} line`,
  ACCESS: `${marker}ACCESSKEY`,
  S3: plain('s3'),
  SESSION: plain('session'),
  SAS: `sv=2024&sig=${encodeURIComponent(plain('sas'))}`,
  WEBHOOK: `/services/T0/${encodeURIComponent(plain('hook'))}?token=${encodeURIComponent(odd('hook-token'))}`,
  SERVICE: plain('service'),
  SERVICE_CLIENT: odd('service-client'),
};

const html = (text: string) =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
const ascii = (text: string) =>
  JSON.stringify(text).replace(
    /[\u0080-\uffff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** How a server may quote a request. */
const spellings: Record<string, (text: string) => string> = {
  'as it is': (text) => text,
  'as JSON': (text) => JSON.stringify(text),
  'as JSON of ASCII': ascii,
  'as HTML': html,
  'as a URL': (text) => encodeURIComponent(text),
  'as SQL': (text) => text.replaceAll("'", "''"),
  'in hexadecimal digits': (text) => Buffer.from(text).toString('hex'),
  'in Base64': (text) => Buffer.from(text).toString('base64'),
};

/** All that a request says, decoded where it says it in another form. */
function texts({ method, path, headers, body }: Received): string[] {
  const { authorization = '' } = headers;
  const login = /^Basic (.*)$/i.exec(authorization)?.[1];
  const form = [...new URLSearchParams(body).values()];
  const query = [...new URL(path, 'http://x').searchParams.values()];
  return [
    ...(login === undefined ? [] : [Buffer.from(login, 'base64').toString()]),
    ...Object.entries(headers).flatMap(([name, value]) => (name === 'host' ? [] : [value])),
    ...form,
    ...query,
    `${method} ${path}`,
    body,
  ];
}

/** A PostgreSQL server that wants the password as it is, and quotes it. */
async function quotingPostgres(spelled: () => (text: string) => string): Promise<Server> {
  const server = createServer((socket) => {
    let received = Buffer.alloc(0);
    let isAsked = false;
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (!isAsked) {
        if (received.length < 4 || received.length < received.readInt32BE(0)) return;
        isAsked = true;
        received = received.subarray(received.readInt32BE(0));
        socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]));
      }
      if (received[0] !== 0x70) return;
      if (received.length < 5 || received.length < received.readInt32BE(1) + 1) return;
      const password = received.subarray(5, -1).toString();
      heard.add(password.split("'")[0] ?? '');
      const said = Buffer.from(`SFATAL\0VFATAL\0C28P01\0Mpassword ${spelled()(password)} refused\0\0`);
      const head = Buffer.alloc(5);
      head.write('E');
      head.writeInt32BE(said.length + 4, 1);
      socket.end(Buffer.concat([head, said]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

let space: Workspace;
let echo: Receiver;
let postgres: Server;
let spelled: (text: string) => string = (text) => text;
let pad = 0;
let status = 401;
const heard = new Set<string>();
beforeAll(async () => {
  space = await Workspace.open({ profiles: 20 });
  echo = await Receiver.open();
  postgres = await quotingPostgres(() => spelled);
});
afterAll(async () => {
  postgres.close();
  await Promise.all([echo.close(), space.close()]);
});

function echoing(): void {
  echo.reset((received, response) => {
    const all = texts(received);
    for (const text of all)
      for (const kind of text.match(new RegExp(`${marker}-[a-z-0-9]+`, 'g')) ?? []) heard.add(kind);
    const quoted = all.map((text) => `${'.'.repeat(pad)}${spelled(text)}`).join(' | ');
    const shortest =
      all.filter((text) => text.includes(marker)).sort((one, other) => one.length - other.length)[0] ?? '';
    const said = pad > 0 ? `${'.'.repeat(pad)}${spelled(shortest)}` : quoted;
    const body = {
      error: said,
      error_description: said,
      message: said,
      detail: said,
      errors: [{ message: said, title: said }],
    };
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
}

const forms = [0, 1, 2].map((before) => {
  const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(`${marker}-`)]).toString('base64');
  return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + 8) * 8) / 6)).toLowerCase();
});
const wanted = [marker, Buffer.from(marker).toString('hex'), ...forms];

const leaks: string[] = [];
function look(where: string, text: string): void {
  const lower = text.toLowerCase();
  for (const each of wanted) {
    const at = lower.indexOf(each);
    if (at >= 0) leaks.push(`${where}: ${text.slice(Math.max(0, at - 100), at + 60)}`);
  }
}

async function said(where: string, words: readonly string[]): Promise<Ended> {
  const ended = await space.cdsync(words, { ...env, TMPDIR: space.folder });
  look(`${where}, standard output of ${words[0]}`, ended.stdout);
  look(`${where}, standard error of ${words[0]}`, ended.stderr);
  return ended;
}

async function lookAtFiles(where: string, job: string): Promise<void> {
  for (const entry of await entriesBelow(space.jobFolder(job))) {
    const path = join(entry.parentPath, entry.name);
    look(`${where}, a name`, path);
    if (isData(path) || (await stat(path)).isDirectory()) continue;
    look(`${where}, ${path.slice(space.folder.length)}`, await readFile(path, 'latin1'));
    look(`${where}, ${path.slice(space.folder.length)}`, await readFile(path, 'utf8'));
  }
}

const destinations = () => {
  const url = `http://127.0.0.1:${echo.port}`;
  const body = { id: '{{ id }}' };
  const common = { streams: ['whole'] };
  const http = (name: string, more: object) => ({
    name,
    connector: 'http',
    url: `${url}/${name}`,
    body,
    ...common,
    ...more,
  });
  return [
    http('bearer', { auth: { bearer: '${BEARER}' } }),
    http('basic', { auth: { basic: { user: 'u', password: '${BASIC}' } } }),
    http('header', { auth: { header: { name: 'x-key', value: '${HEADER}' } } }),
    http('query', { auth: { query: { name: 'key', value: '${QUERY}' } } }),
    http('client', { auth: { oauth2: { token_url: `${url}/token`, client_id: 'c', client_secret: '${CLIENT}' } } }),
    http('refresh', {
      auth: {
        oauth2: { token_url: `${url}/token`, grant: 'refresh_token', client_id: 'c', refresh_token: '${REFRESH}' },
      },
    }),
    { name: 'house', connector: 'clickhouse', url, username: 'u', password: '${HOUSE}', database: 'd', ...common },
    {
      name: 'lake',
      connector: 'trino',
      url,
      username: 'u',
      password: '${TRINO}',
      catalog: 'c',
      schema: 's',
      ...common,
    },
    {
      name: 'cat',
      connector: 'iceberg',
      catalog: `${url}/cat`,
      warehouse: 'w',
      namespace: 'n',
      token: '${CATALOG}',
      ...common,
    },
    {
      ...{ name: 'catc', connector: 'iceberg', catalog: `${url}/catc`, warehouse: 'w', namespace: 'n', ...common },
      ...{ client_id: 'i', client_secret: '${CATALOG_CLIENT}' },
    },
    {
      ...{
        name: 'bucket',
        connector: 'files',
        url: 's3://buck/p',
        endpoint: url,
        path_style: true,
        region: 'r',
        ...common,
      },
      ...{ access_key_id: '${ACCESS}', secret_access_key: '${S3}', session_token: '${SESSION}' },
    },
    {
      name: 'pg',
      connector: 'postgres',
      url: `postgres://u@127.0.0.1:${(postgres.address() as AddressInfo).port}/d`,
      password: '${PG}',
      ...common,
    },
  ];
};

describe('a secret that a server quotes back', () => {
  it.each([...Object.keys(spellings), 'cut'])(
    'is in no output, %s',
    async (spelling) => {
      spelled = spellings[spelling] ?? ((text) => text);
      const name = `echo${Object.keys(spellings).indexOf(spelling) + 1}`;
      const hook = `http://127.0.0.1:${echo.port}\${WEBHOOK}`;
      const notify = ['json', 'slack', 'teams', 'text'].map((format) => ({
        on: ['failed', 'partial', 'ok'],
        webhook: hook,
        format,
        every: true,
      }));
      const whole = { name: 'whole', source: 'index_profiles', index: 'loyalty_members' };
      await space.configure(name, [whole], {
        job: { destinations: destinations(), notify, metrics: { textfile: `./${name}.prom` } },
      });
      echoing();
      leaks.length = 0;
      const responses = {
        'as it is': [
          [401, 0],
          [400, 0],
        ],
        cut: [
          [400, 265],
          [401, 280],
        ],
      }[spelling] ?? [[400, 0]];
      for (const [code, padding] of responses) {
        status = code as number;
        pad = padding as number;
        await said(`${spelling} ${code}`, ['check', `${name}.json`, '--verbose']);
        await said(`${spelling} ${code}`, [
          'run',
          `${name}.json`,
          '--verbose',
          '--log-format',
          'json',
          '--show-values',
        ]);
        await said(`${spelling} ${code}`, ['status', `${name}.json`]);
        if (spelling === 'as it is')
          await said(`${spelling} ${code}`, ['push', `${name}.json`, '--dry-run', '--show-values']);
        await lookAtFiles(`${spelling} ${code}`, name);
        look(`${spelling} metrics`, await readFile(join(space.folder, `${name}.prom`), 'utf8'));
        for (const { path, body } of echo.received)
          if (path.startsWith('/services')) look(`${spelling}, a message`, body);
      }
      const ofService = {
        auth: { token: '${SERVICE}' },
        base_url: `http://127.0.0.1:${echo.port}`,
        retry: { patience: '0s' },
      };
      await space.configure(`${name}_s`, [whole], { service: ofService });
      const client = { ...ofService, auth: { client_id: 'c', client_secret: '${SERVICE_CLIENT}' } };
      await space.configure(`${name}_c`, [whole], { service: client });
      for (const job of [`${name}_s`, `${name}_c`])
        for (const words of [
          ['run', '--verbose'],
          ['plan'],
          ['check', '--json'],
          ['discover'],
          ['lookup', 'c', 'k=v'],
        ]) {
          status = words[0] === 'plan' ? 400 : 401;
          await said(`${spelling}, service`, [words[0] as string, `${job}.json`, ...words.slice(1)]);
        }
      expect(leaks).toEqual([]);
    },
    600_000,
  );

  it('was quoted for each of them', () => {
    const kinds =
      'basic bearer catalog catalog-client client header hook hook-token house pg query refresh service service-client session trino';
    expect([...heard].sort()).toEqual(kinds.split(' ').map((kind) => `${marker}-${kind}`));
  });
});

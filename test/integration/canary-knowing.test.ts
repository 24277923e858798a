import { generateKeyPairSync } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import { marker } from '../fixtures/canaries.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { Workspace } from '../fixtures/workspace.js';
import { isData } from './canary-commands.js';

const of = (kind: string) => `${marker}-${kind}-5up3r`;
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'another' },
});
const env: Record<string, string> = {
  SALT: of('salt-of-columns'),
  SMTP: of('smtp'),
  OTLP: of('otlp'),
  PROXY: of('proxy'),
  BUDGET: of('budget'),
  SNOW: of('snow'),
  SNOW_PHRASE: of('snow-phrase'),
  SNOW_KEY: privateKey,
  MYSQL: of('mysql'),
  PG: of('pg'),
  SFTP: of('sftp'),
  SFTP_KEY: `-----BEGIN OPENSSH PRIVATE KEY-----\n${of('sftp-key')}\n-----END OPENSSH PRIVATE KEY-----`,
  SFTP_PHRASE: of('sftp-phrase'),
  PGP_KEY: `-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n${of('pgp-key')}\n-----END PGP PRIVATE KEY BLOCK-----`,
  PGP_PHRASE: of('pgp-phrase'),
  AZURE: Buffer.from(of('azure-key-of-an-account')).toString('base64'),
  S3: of('s3'),
  CLIENT: of('client'),
  SIGNING: `whsec_${Buffer.from(of('signing-with-enough-bytes')).toString('base64')}`,
  HOOK: `/services/${of('hook-of-a-channel')}`,
  PING: `/ping/${of('ping-of-a-check')}`,
  SERVICE: of('service'),
};
const inFile = of('of-a-file');
const lines = (texts: readonly (string | undefined)[]) =>
  texts.flatMap((each = '') => each.split('\n').filter((line) => line !== '' && !line.startsWith('-----'))).join(' ');
const others = new Set(['PROXY', 'BUDGET', 'SERVICE', 'PGP_KEY', 'PGP_PHRASE']);
const own = Object.entries(env).flatMap(([name, value]) => (others.has(name) ? [] : [value]));
/** The words of each server: the secrets of the configuration. */
let known = lines([...own, inFile, Buffer.from(`u:${env.SMTP}`).toString('base64')]);

const servers: Server[] = [];
async function listening(greet: (socket: Socket) => void, at = createServer()): Promise<number> {
  at.on('connection', (socket) => {
    socket.on('error', () => undefined);
    greet(socket);
  });
  servers.push(at);
  await new Promise<void>((resolve) => at.listen(0, '127.0.0.1', resolve));
  return (at.address() as AddressInfo).port;
}

const text = (...parts: string[]) => parts.flatMap((part) => [uint32(Buffer.byteLength(part)), Buffer.from(part)]);
function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** An SSH server that ends the connection, and says why. */
function endSsh(socket: Socket): void {
  const payload = Buffer.concat([Buffer.from([1]), uint32(2), ...text(known, '')]);
  const padding = 12 - ((payload.length + 9) % 8);
  socket.write('SSH-2.0-OpenSSH_9.0\r\n');
  socket.write(
    Buffer.concat([uint32(1 + payload.length + padding), Buffer.from([padding]), payload, Buffer.alloc(padding)]),
  );
}

function endPostgres(socket: Socket): void {
  socket.once('data', () => {
    const said = Buffer.from(`SFATAL\0VFATAL\0C28P01\0M${known}\0\0`);
    socket.end(Buffer.concat([Buffer.from('E'), uint32(said.length + 4), said]));
  });
}

function endMysql(socket: Socket): void {
  const said = Buffer.concat([Buffer.from([0xff, 0x15, 0x04]), Buffer.from(`#28000${known}`)]);
  const head = Buffer.from([said.length & 255, said.length >> 8, 0, 0]);
  socket.end(Buffer.concat([head, said]));
}

function endMail(socket: Socket): void {
  socket.write('220 mail\r\n');
  socket.on('data', (line) => {
    socket.write(/^EHLO/i.test(String(line)) ? '250-mail\r\n250 AUTH PLAIN LOGIN\r\n' : `535 ${known}\r\n`);
  });
}

let space: Workspace;
let echo: Receiver;
let messages: Receiver;
let ports: Record<'pg' | 'mysql' | 'ssh' | 'mail' | 'proxy', number>;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 20 });
  [echo, messages] = [await Receiver.open(), await Receiver.open()];
  const proxy = createHttpServer((_, response) => response.writeHead(502).end(known));
  proxy.on('connect', (_, socket) => socket.end(`HTTP/1.1 407 ${known}\r\n\r\n${known}`));
  ports = {
    pg: await listening(endPostgres),
    mysql: await listening(endMysql),
    ssh: await listening(endSsh),
    mail: await listening(endMail),
    proxy: await listening(() => undefined, proxy),
  };
  echo.reset((_, response) => {
    const body = {
      error: known,
      error_description: known,
      message: known,
      detail: known,
      errors: [{ message: known }],
    };
    response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
});
afterAll(async () => {
  for (const server of servers) server.close();
  await Promise.all([echo.close(), messages.close(), space.close()]);
});

const looked = new Set<string>();
const leaks = new Set<string>();
function look(where: string, words: string): void {
  looked.add(where);
  const azure = env.AZURE ?? '';
  for (const wanted of [marker, azure.slice(4, -4), (env.SIGNING ?? '').slice(10, -4)])
    for (let at = words.indexOf(wanted); at >= 0; at = words.indexOf(wanted, at + 1))
      leaks.add(`${where}: ${words.slice(Math.max(0, at - 60), at + 40)}`);
}

async function said(words: readonly string[], more: Record<string, string> = {}): Promise<void> {
  const ended = await space.cdsync(words, { ...env, TMPDIR: space.folder, ...more });
  console.log(words.join(' '), ended.code, ended.stdout.slice(0, 3000), ended.stderr.slice(0, 5000));
  look(`${words.join(' ')}: output`, ended.stdout);
  look(`${words.join(' ')}: errors`, ended.stderr);
}

const streams = [
  {
    name: 'whole',
    source: 'index_profiles',
    index: 'loyalty_members',
    columns: { email: { hash: true, salt: '${SALT}' } },
  },
];

it('no output has a secret that a server, a proxy or a library says', async () => {
  const url = `http://127.0.0.1:${echo.port}`;
  await writeFile(join(space.folder, 'token.txt'), inFile);
  const account = { type: 'service_account', client_email: 'a@b.example', private_key: 'none' };
  await writeFile(join(space.folder, 'account.json'), JSON.stringify(account));
  const ofExport = { connector: 'export', file: '{{ stream }}.csv', streams: ['whole'] };
  const sftp = { ...ofExport, url: `sftp://u@127.0.0.1:${ports.ssh}/in`, host_key: `SHA256:${'A'.repeat(43)}` };
  const http = { connector: 'http', url: `${url}/api`, body: { id: '{{ id }}' }, streams: ['whole'] };
  const destinations = [
    { name: 'pg', connector: 'postgres', url: `postgres://u@127.0.0.1:${ports.pg}/d`, password: '${PG}' },
    { name: 'my', connector: 'mysql', url: `mysql://u:\${MYSQL}@127.0.0.1:${ports.mysql}/d` },
    { ...sftp, name: 'sftpp', password: '${SFTP}' },
    {
      ...sftp,
      name: 'sftpk',
      file: 'other_{{ stream }}.csv',
      private_key: '${SFTP_KEY}',
      key_passphrase: '${SFTP_PHRASE}',
    },
    { ...ofExport, name: 'azure', url: 'az://box/in', account: 'acc', account_key: '${AZURE}', endpoint: `${url}/acc` },
    {
      ...ofExport,
      name: 's3',
      url: 's3://buck/in',
      endpoint: url,
      region: 'r',
      path_style: true,
      access_key_id: 'AKIA',
      secret_access_key: '${S3}',
    },
    { ...http, name: 'file', auth: { bearer: '${file:token.txt}' } },
    {
      ...http,
      name: 'client',
      auth: { oauth2: { token_url: `${url}/token`, client_id: 'c', client_secret: '${CLIENT}' } },
    },
    { name: 'signed', connector: 'http', url: `${url}/signed`, signing_secret: '${SIGNING}', streams: ['whole'] },
    { name: 'bq', connector: 'bigquery', project: 'p-123456', dataset: 'd', key_file: './account.json' },
    ...['snowt', 'snowk'].map((name) => ({
      ...{
        name,
        connector: 'snowflake',
        account: 'a-b',
        host: `127.0.0.1:${echo.port}`,
        username: 'u',
        warehouse: 'w',
        database: 'd',
        schema: `s_${name}`,
      },
      ...(name === 'snowt'
        ? { token: '${SNOW}' }
        : { private_key: '${SNOW_KEY}', private_key_passphrase: '${SNOW_PHRASE}' }),
    })),
  ];
  const on = ['failed', 'partial', 'ok'];
  const pgp = {
    ...ofExport,
    name: 'pgp',
    path: './out',
    encrypt: { pgp: ['./token.txt'], sign: '${PGP_KEY}', passphrase: '${PGP_PHRASE}' },
  };
  const notify = [
    { on, webhook: `${url}\${HOOK}`, format: 'json', every: true },
    { on, ping: `${url}\${PING}`, every: true },
    { on, webhook: `http://127.0.0.1:${messages.port}/messages`, format: 'json', every: true },
    { on, email: { to: ['a@b.example'], smtp: `smtp://u:\${SMTP}@127.0.0.1:${ports.mail}` }, every: true },
  ];
  const after = [{ run: ['sh', '-c', 'env | grep ^CDSYNC_ > after.txt; cat "$CDSYNC_REPORT" >> after.txt'] }];
  const metrics = { textfile: './known.prom', otlp: `${url}/otlp` };
  const otlp = { OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${env.OTLP}` };
  await space.configure('known', streams, { job: { destinations, notify, after, metrics } });
  await said(['check', 'known.json', '--verbose'], otlp);
  await said(['run', 'known.json', '--verbose', '--log-format', 'json', '--show-values'], otlp);
  await said(['run', 'known.json', '--json', '--verbose'], otlp);
  await said(['push', 'known.json', '--dry-run', '--show-values'], otlp);
  await said(['status', 'known.json'], otlp);
  for (const entry of await entriesBelow(space.jobFolder('known'))) {
    const path = join(entry.parentPath, entry.name);
    if (!isData(path) && !(await stat(path)).isDirectory())
      look(path.slice(space.folder.length), await readFile(path, 'utf8'));
  }
  for (const file of ['known.prom', 'after.txt']) look(file, await readFile(join(space.folder, file), 'utf8'));
  for (const { body } of [...messages.received, ...echo.received.filter(({ path }) => /services|otlp/.test(path))])
    look('a message', body);
  for (const [name, service] of Object.entries({
    token: { base_url: url, auth: { token: '${SERVICE}' }, retry: { patience: '0s' } },
    budget: { budget: { shared: { postgres: `postgres://u:\${BUDGET}@127.0.0.1:${ports.pg}/d` } } },
    proxy: { base_url: 'https://service.example', auth: { token: '${SERVICE}' }, retry: { patience: '0s' } },
  })) {
    known = lines([name === 'token' ? env.SERVICE : name === 'budget' ? env.BUDGET : env.PROXY]);
    await space.configure(`known_${name}`, streams, { service });
    const proxy = name === 'proxy' ? { HTTPS_PROXY: `http://u:${env.PROXY}@127.0.0.1:${ports.proxy}` } : {};
    for (const words of [['run', '--verbose'], ['check', '--json'], ['plan'], ['discover']])
      await said([words[0] as string, `known_${name}.json`, ...words.slice(1)], proxy);
  }
  known = lines([env.PGP_KEY, env.PGP_PHRASE]);
  await space.configure('known_pgp', streams, { job: { destinations: [pgp] } });
  for (const words of [
    ['check', '--verbose'],
    ['run', '--json', '--verbose'],
  ])
    await said([words[0] as string, 'known_pgp.json', ...words.slice(1)]);
  expect([...leaks]).toEqual([]);
}, 600_000);

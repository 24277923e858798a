import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DuckDBInstance } from '@duckdb/node-api';
import { generateKey } from 'openpgp';
import { SftpStore } from '../../connectors/export/sftp.js';
import { formatCount } from '../../src/core/quantities.js';
import type { RunReport } from '../../src/core/run-report.js';
import { Secret } from '../../src/core/secret.js';
import { SshServer, sshdIsInstalled } from '../fixtures/sshd.js';
import { writeConfig } from './configs.js';
import { measure, type ServedService, serve } from './process.js';
import type { Figure } from './table.js';

/** A receiver in a separate process, which takes every request and keeps nothing. It prints its port. */
const receiver = `require('node:http').createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });`;

async function startReceiver(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const child = spawn(process.execPath, ['-e', receiver], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { url: `http://127.0.0.1:${port}/`, stop: () => child.kill() };
}

class Bench {
  readonly #cdsync: string;
  readonly #service: ServedService;
  readonly #config: string;

  constructor(cdsync: string, service: ServedService, config: string) {
    this.#cdsync = cdsync;
    this.#service = service;
    this.#config = config;
  }

  async #command(...words: readonly string[]) {
    const [command = '', ...options] = words;
    const all = [this.#cdsync, command, this.#config, '--json', '--quiet', ...options];
    const usage = await measure(process.execPath, all, { env: this.#service.env });
    if (usage.code !== 0) throw new Error(`cdsync ${command} ended with ${usage.code}: ${usage.stderr}${usage.stdout}`);
    const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
    return { ...usage, rows: job?.destinations[0]?.rows ?? 0 };
  }

  run() {
    return this.#command('run', '--no-push');
  }

  push(destination: string) {
    return this.#command('push', '--destination', destination);
  }
}

/** Rows as requests, in batches and singly; of more rows, whether what waits takes memory. */
async function benchHttp(cdsync: string, folder: string, profiles = 100_000): Promise<Figure[]> {
  const [service, target] = await Promise.all([serve(cdsync, ['--profiles', String(profiles)]), startReceiver()]);
  try {
    const body = { id: '{{ id }}', email: '{{ email | downcase }}', tier: '{{ tier }}', city: '{{ city }}' };
    const common = { connector: 'http', url: target.url, mode: 'upsert', body };
    const batch = { records: 100, body: { records: '{{ records }}' } };
    const destinations = [
      { name: 'batches', ...common, batch, parallel: 4 },
      { name: 'singly', ...common, parallel: 16 },
    ];
    const bench = new Bench(cdsync, service, await writeConfig(folder, `http-${profiles}`, {}, {}, { destinations }));
    await bench.run();
    const figures: Figure[] = [];
    for (const [name, reach] of [
      ['batches', '20,000 rows/s'],
      ['singly', '2,000 rows/s'],
    ] as const) {
      if (profiles > 100_000 && name === 'singly') continue;
      const { rows, wallSeconds, cpuSeconds, peakMb } = await bench.push(name);
      figures.push({
        what: `http, ${formatCount(rows)} rows, ${name}: rows/s with the start; CPU s; peak RSS`,
        measured: `${formatCount(Math.round(rows / wallSeconds))}; ${cpuSeconds.toFixed(1)}; ${Math.round(peakMb)} MB`,
        reach,
      });
    }
    return figures;
  } finally {
    target.stop();
    await service.stop();
  }
}

/** Seconds of DuckDB's own COPY of all rows as quoted CSV, in their order. */
async function bareCopy(database: string, path: string): Promise<number> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
  const connection = await instance.connect();
  await connection.run(`ATTACH '${database}' AS published (READ_ONLY)`);
  const began = performance.now();
  await connection.run(
    `COPY (FROM published.members ORDER BY id) TO '${path}' (FORMAT csv, HEADER, FORCE_QUOTE *, DELIMITER ';')`,
  );
  const seconds = (performance.now() - began) / 1000;
  connection.closeSync();
  instance.closeSync();
  return seconds;
}

/** A file to OpenSSH on this machine, by cdsync and by `sftp`. */
async function benchSftp(local: string): Promise<Figure[]> {
  if (!sshdIsInstalled()) return [];
  const server = await SshServer.start();
  try {
    const place = `${userInfo().username}@127.0.0.1`;
    const trust = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR'];
    const login = ['-P', String(server.port), '-i', join(server.folder, 'user')];
    const words = ['-q', '-b', '-', ...trust.flatMap((option) => ['-o', option]), ...login, place];
    const timed = async (work: () => Promise<unknown>) => {
      const began = performance.now();
      await work();
      return (performance.now() - began) / 1000;
    };
    const plain = await timed(async () => {
      const sftp = spawn('sftp', words, { stdio: ['pipe', 'ignore', 'inherit'] });
      sftp.stdin.end(`put ${local} ${server.inbox}/plain.csv\n`);
      const [code] = await once(sftp, 'exit');
      if (code !== 0) throw new Error(`sftp ended with ${code}`);
    });
    const { signal } = new AbortController();
    const { size: bytes } = await stat(local);
    const seconds = await timed(async () => {
      const pins = { privateKey: new Secret(server.key), hostKey: server.prints.ed25519, agent: false };
      const store = await SftpStore.open({ url: server.url, ...pins, signal }, 0o640);
      const file = { name: 'sent.csv', bytes, sha256: '' };
      const noted = async () => undefined;
      const task = { local, name: file.name, file, temporary: '.sent.csv.part', replaces: false };
      const put = await store.put({ ...task, uploaded: noted, refused: noted });
      store.close();
      if (put !== 'put') throw new Error(`the file is ${put}`);
    });
    return [
      {
        what: `export, ${formatCount(Math.round(bytes / 1e6))} MB to OpenSSH: the hand-over / sftp with the same file`,
        measured: `${seconds.toFixed(1)} s / ${plain.toFixed(1)} s = ${(seconds / plain).toFixed(2)}x`,
        reach: '1.5x',
      },
    ];
  } finally {
    await server.close();
  }
}

/** A million rows as a file for a partner. */
async function benchExport(cdsync: string, folder: string): Promise<Figure[]> {
  const service = await serve(cdsync, ['--profiles', '1000000']);
  try {
    const { publicKey } = await generateKey({ userIDs: [{ name: 'partner' }], type: 'rsa', rsaBits: 3072 });
    const key = join(folder, 'partner.asc');
    await writeFile(key, publicKey);
    const csv = { delimiter: ';', quote: 'all' };
    const common = { connector: 'export', file: '{{ stream }}_{{ sequence }}.csv', format: 'csv', csv };
    const destinations = [
      { name: 'plain', ...common, path: join(folder, 'plain') },
      { name: 'sealed', ...common, path: join(folder, 'sealed'), compress: 'gzip', encrypt: { pgp: [key] } },
    ];
    const bench = new Bench(cdsync, service, await writeConfig(folder, 'export', {}, {}, { destinations }));
    await bench.run();
    const copied = await bareCopy(join(folder, 'export', 'bench', 'bench.duckdb'), join(folder, 'bare.csv'));
    const figures: Figure[] = [];
    for (const [name, reach] of [
      ['plain', '1.3x'],
      ['sealed', '2.5x'],
    ] as const) {
      const { wallSeconds, cpuSeconds, peakMb } = await bench.push(name);
      const ratio = `${wallSeconds.toFixed(1)} s / ${copied.toFixed(1)} s = ${(wallSeconds / copied).toFixed(2)}x`;
      figures.push({
        what: `export, 1,000,000 rows as quoted CSV${name === 'sealed' ? ', gzip and PGP' : ''}: the whole push / a bare COPY; CPU s; peak RSS`,
        measured: `${ratio}; ${cpuSeconds.toFixed(1)}; ${Math.round(peakMb)} MB`,
        reach,
      });
    }
    return [...figures, ...(await benchSftp(join(folder, 'plain', 'members_1.csv')))];
  } finally {
    await service.stop();
  }
}

/** Rows to an API, and to a partner's folder. */
export async function benchOutbound(cdsync: string, folder: string): Promise<Figure[]> {
  const http = [...(await benchHttp(cdsync, folder)), ...(await benchHttp(cdsync, folder, 400_000))];
  return [...http, ...(await benchExport(cdsync, folder))];
}

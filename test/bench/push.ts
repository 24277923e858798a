import { createReadStream, createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { from, to } from 'pg-copy-streams';
import { formatCount } from '../../src/core/quantities.js';
import type { RunReport } from '../../src/core/run-report.js';
import { PostgresServer } from '../fixtures/postgres-server.js';
import { writeConfig } from './configs.js';
import { measure, type ServedService, serve, type Usage } from './process.js';
import { type Figure, median } from './table.js';

const sizes = [100_000, 1_000_000];
const times = 3;
const table = 'cdp.members';

interface Pushed extends Usage {
  readonly rows: number;
}

/** Whether a load reads back the rows that it wrote. */
type Verify = 'rows' | 'none';

/** Deliveries of the same work, by whether they were read back. */
type Checked = Record<Verify, Pushed[]>;

class Bench {
  readonly #cdsync: string;
  readonly #server: PostgresServer;
  readonly #client: pg.Client;
  readonly #service: ServedService;
  readonly #config: string;
  readonly #bytes: string;

  constructor(
    cdsync: string,
    folder: string,
    parts: { server: PostgresServer; client: pg.Client; service: ServedService; config: string },
  ) {
    this.#cdsync = cdsync;
    this.#server = parts.server;
    this.#client = parts.client;
    this.#service = parts.service;
    this.#config = parts.config;
    this.#bytes = join(folder, 'members.csv');
  }

  async #command(words: readonly string[]): Promise<Pushed> {
    const env = { ...this.#service.env, WAREHOUSE_URL: this.#server.url() };
    const [command = '', ...options] = words;
    const all = [this.#cdsync, command, this.#config, '--json', '--quiet', ...options];
    const usage = await measure(process.execPath, all, { env });
    if (usage.code !== 0) throw new Error(`cdsync ${command} ended with ${usage.code}: ${usage.stderr}${usage.stdout}`);
    const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
    return { ...usage, rows: job?.destinations[0]?.rows ?? 0 };
  }

  run(): Promise<Pushed> {
    return this.#command(['run', '--no-push']);
  }

  push(...options: readonly string[]): Promise<Pushed> {
    return this.#command(['push', ...options]);
  }

  async pushToNothing(): Promise<Pushed> {
    await this.#client.query('DROP SCHEMA IF EXISTS cdp CASCADE');
    await this.#client.query('CHECKPOINT');
    return this.push();
  }

  /** Keeps the bytes for the bare COPY. */
  async keepBytes(): Promise<void> {
    await pipeline(this.#client.query(to(`COPY ${table} TO STDOUT (FORMAT csv)`)), createWriteStream(this.#bytes));
  }

  /** Seconds of a bare COPY of the same bytes: into the same table, emptied, or into one without a key. */
  async bareCopy(target: 'the same' | 'without a key'): Promise<number> {
    const into = target === 'the same' ? table : 'cdp.bare';
    if (target === 'the same') await this.#client.query(`TRUNCATE ${table}`);
    else await this.#client.query(`DROP TABLE IF EXISTS cdp.bare; CREATE TABLE cdp.bare (LIKE ${table})`);
    await this.#client.query('CHECKPOINT');
    const began = performance.now();
    const copy = this.#client.query(from(`COPY ${into} FROM STDIN (FORMAT csv)`));
    await pipeline(createReadStream(this.#bytes, { highWaterMark: 1 << 20 }), copy);
    return (performance.now() - began) / 1000;
  }
}

async function benchSize(cdsync: string, folder: string, profiles: number): Promise<Figure[]> {
  const [service, server] = await Promise.all([
    serve(cdsync, ['--profiles', String(profiles)]),
    PostgresServer.start(),
  ]);
  const client = new pg.Client({ connectionString: server.url() });
  try {
    await client.connect();
    const deliverTo = (destination: object) =>
      writeConfig(folder, `push-${profiles}`, {}, {}, { destinations: [{ name: 'crm', ...destination }] });
    const configure = (verify: Verify) =>
      deliverTo({ connector: 'postgres', url: '${WAREHOUSE_URL}', schema: 'cdp', verify });
    const config = await configure('none');
    const bench = new Bench(cdsync, folder, { server, client, service, config });
    await bench.run();
    const [pushes, same, keyless]: [Pushed[], number[], number[]] = [[], [], []];
    for (let turn = 0; turn < times; turn += 1) {
      pushes.push(await bench.pushToNothing());
      if (turn === 0) await bench.keepBytes();
      keyless.push(await bench.bareCopy('without a key'));
      same.push(await bench.bareCopy('the same'));
    }
    await bench.pushToNothing();
    const increments: Checked = { rows: [], none: [] };
    const reloads: Checked = { rows: [], none: [] };
    for (const verify of ['none', 'rows', 'rows', 'none'] as const) {
      await configure(verify);
      await service.control('change', { days: 1, updated: 0.01 });
      await bench.run();
      increments[verify].push(await bench.push());
      reloads[verify].push(await bench.push('--full'));
    }
    const hashed = await bench.push('--verify');
    await deliverTo({ connector: 'duckdb', path: join(folder, `push-${profiles}.duckdb`) });
    await bench.push();
    const changed: Pushed[] = [];
    for (let turn = 0; turn < times; turn += 1) {
      await service.control('change', { days: 1, updated: 0.01 });
      await bench.run();
      changed.push(await bench.push());
    }
    return [
      ...figures(profiles, { pushes, same: median(same), keyless: median(keyless) }),
      ...readBackFigures(profiles, { increments, reloads, hashed }),
      {
        what: `${formatCount(profiles)} in a DuckDB file: push of ${formatCount(changed[0]?.rows ?? 0)} changes, seconds / CPU s / peak RSS`,
        measured: shown(changed),
      },
    ];
  } finally {
    await client.end();
    await Promise.all([service.stop(), server.stop()]);
  }
}

/** Seconds, CPU seconds and peak memory. */
function shown(pushes: readonly Pushed[]): string {
  const middle = (of: (pushed: Pushed) => number) => median(pushes.map(of));
  const [wall, cpu] = [middle(({ wallSeconds }) => wallSeconds), middle(({ cpuSeconds }) => cpuSeconds)];
  return `${wall.toFixed(1)} s / ${cpu.toFixed(1)} / ${Math.round(middle(({ peakMb }) => peakMb))} MB`;
}

/** How much longer a load takes that is read back. */
function compared({ rows, none }: Checked): string {
  const wall = (pushes: readonly Pushed[]) => median(pushes.map(({ wallSeconds }) => wallSeconds));
  const more = Math.round((wall(rows) / wall(none) - 1) * 100);
  return `${shown(rows)} against ${shown(none)}: ${more < 0 ? '' : '+'}${more} %`;
}

function readBackFigures(
  profiles: number,
  { increments, reloads, hashed }: { increments: Checked; reloads: Checked; hashed: Pushed },
): Figure[] {
  const size = formatCount(profiles);
  const changes = formatCount(median([...increments.rows, ...increments.none].map(({ rows }) => rows)));
  return [
    {
      what: `${size}: push of ${changes} changes, read back, against without: seconds / CPU s / peak RSS`,
      measured: compared(increments),
      reach: '+10 %',
    },
    { what: `${size}: reload, read back, against without`, measured: compared(reloads), reach: '+30 %' },
    { what: `${size}: the whole table by one hash, nothing to load`, measured: shown([hashed]) },
  ];
}

function figures(
  profiles: number,
  { pushes, same, keyless }: { pushes: readonly Pushed[]; same: number; keyless: number },
): Figure[] {
  const size = formatCount(profiles);
  const wall = median(pushes.map(({ wallSeconds }) => wallSeconds));
  const cpu = median(pushes.map(({ cpuSeconds }) => cpuSeconds));
  const peak = Math.max(...pushes.map(({ peakMb }) => peakMb));
  return [
    {
      what: `${size} rows into an empty PostgreSQL: push / bare COPY of the same bytes into the same table`,
      measured: `${wall.toFixed(1)} s / ${same.toFixed(1)} s = ${(wall / same).toFixed(2)}x`,
      reach: '<= 1.5x',
      stretch: '<= 1.2x',
    },
    {
      what: `${size}: the same against a bare COPY into a table without a primary key`,
      measured: `${wall.toFixed(1)} s / ${keyless.toFixed(1)} s = ${(wall / keyless).toFixed(2)}x`,
    },
    { what: `${size}: push, CPU s / peak RSS`, measured: `${cpu.toFixed(1)} / ${Math.round(peak)} MB` },
  ];
}

/** Deliveries to PostgreSQL: a first one, compared with a bare COPY, and one of a day's changes; and these to DuckDB. */
export async function benchPush(cdsync: string, folder: string): Promise<Figure[]> {
  const all: Figure[] = [];
  for (const profiles of sizes) all.push(...(await benchSize(cdsync, folder, profiles)));
  return all;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../../src/config/config.js';
import { loadConfig } from '../../../src/config/load.js';
import { type Clock, systemClock } from '../../../src/core/clock.js';
import type { DestinationReport, StreamReport } from '../../../src/core/run-report.js';
import { forget } from '../../../src/engine/admin/forget-person.js';
import { jobContext, withDelivery, withEngine, withStorage } from '../../../src/engine/open-engine.js';
import type { DeliverJobOptions } from '../../../src/engine/run/deliver-job.js';
import { pushJob } from '../../../src/engine/run/push-job.js';
import { runAndDeliver } from '../../../src/engine/run/run-and-deliver.js';
import type { Budget } from '../../../src/rate-limit/budget.js';
import { openBudget } from '../../../src/rate-limit/open-budget.js';
import type { TableConnector } from '../../../src/sdk/index.js';
import { PlainList } from '../../fixtures/plain-list.js';

type Row = Record<string, unknown>;
type Connectors = ReadonlyMap<string, TableConnector>;

export type Flags = Pick<DeliverJobOptions, 'full' | 'adopt' | 'recreate' | 'verify'>;

export interface Setup {
  readonly stream: Row;
  readonly destination: Row;
}

/** A commit of the stream, as the published file has it. */
export interface Published {
  readonly run: string;
  readonly sequence: number;
  /** DuckDB types of the stream's columns, by path. */
  readonly types: ReadonlyMap<string, string>;
  readonly keys: readonly string[];
}

const job = 'nightly';
const program = join(import.meta.dirname, '..', '..', '..', 'dist', 'src', 'cli', 'main.js');
const striking = join(import.meta.dirname, 'killed-at.mjs');

/** One installation of cdsync: a configuration, a storage folder and a clock. The commands run in this process. */
export class Product {
  readonly service: PlainList;
  readonly folder: string;
  readonly #open: (sql: string) => Promise<Row[]>;
  now = Date.UTC(2026, 0, 1, 2);
  /** The errors of the last command, as they were thrown: a report has no causes. */
  readonly causes: unknown[] = [];

  readonly #connectors: Connectors | undefined;

  private constructor(
    service: PlainList,
    folder: string,
    open: (path: string, sql: string) => Promise<Row[]>,
    connectors?: Connectors,
  ) {
    this.service = service;
    this.folder = folder;
    this.#connectors = connectors;
    this.#open = (sql) => open(join(this.#job, `${job}.duckdb`), sql);
  }

  /** @param query reads a DuckDB file in another process @param connectors in place of those that come with cdsync */
  static async open(query: (path: string, sql: string) => Promise<Row[]>, connectors?: Connectors): Promise<Product> {
    return new Product(await PlainList.open(), await mkdtemp(join(tmpdir(), 'cdsync-deliveries-')), query, connectors);
  }

  async close(): Promise<void> {
    await this.service.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  get #job(): string {
    return join(this.folder, 'data', job);
  }

  get #config(): string {
    return join(this.folder, 'config.json');
  }

  async configure({ stream, destination }: Setup): Promise<void> {
    const members = { name: 'members', source: 'index_profiles', index: 'made', ...stream };
    const guards = { max_deleted: 'off', max_changed: 'off' };
    const config = {
      version: 1,
      service: {
        base_url: this.service.url,
        tenant_id: 'acme',
        auth: { token: 'secret' },
        budget: { shared: 'none' },
      },
      storage: './data',
      resources: { memory_mb: 256, threads: 1 },
      jobs: {
        [job]: { streams: [members], guards, keep: { changes: '90d' }, destinations: [{ name: 'wh', ...destination }] },
      },
    };
    await writeFile(this.#config, JSON.stringify(config));
  }

  /** Time passes only here, and waits take none. */
  get #clock(): Clock {
    return { ...systemClock, now: () => this.now, sleep: async () => undefined };
  }

  async #loaded() {
    const connectors = this.#connectors === undefined ? {} : { connectors: this.#connectors };
    const config = await loadConfig(this.#config, { env: {}, needs: { destinations: true }, ...connectors });
    const [only] = config.jobs;
    if (only === undefined) throw new Error('the configuration has no job');
    return { config: config as Config, only };
  }

  #options(budget: Budget) {
    this.causes.length = 0;
    const failed = (error: Error) => void this.causes.push(String(error.cause ?? error));
    return { signal: new AbortController().signal, notice: () => undefined, budget, failed };
  }

  /** A run without its deliveries. */
  async run(): Promise<StreamReport> {
    const { config, only } = await this.#loaded();
    const budget = openBudget(config.service.budget);
    try {
      const options = this.#options(budget);
      const report = await withEngine(config, options, (engine) =>
        runAndDeliver(
          jobContext({ ...engine, clock: this.#clock }, { ...only, destinations: [] }, { accept: true, rekey: true }),
        ),
      );
      const [stream] = report.streams;
      if (stream?.status !== 'ok')
        throw new Error(`the run failed: ${JSON.stringify(stream?.error ?? report)} ${this.causes}`);
      return stream;
    } finally {
      await budget.close();
    }
  }

  async push(flags: Flags = {}): Promise<DestinationReport> {
    const { config, only } = await this.#loaded();
    const budget = openBudget(config.service.budget);
    try {
      const options = this.#options(budget);
      const report = await withDelivery(config, options, (engine) =>
        pushJob({ ...engine, clock: this.#clock, layout: engine.layoutOf(job) }, { job: only, ...flags, progress: [] }),
      );
      return report.destinations[0] as DestinationReport;
    } finally {
      await budget.close();
    }
  }

  /** Delivers in a process that kills itself. @returns whether it was killed before its end */
  async pushKilled(at: string): Promise<boolean> {
    const clock = `data:text/javascript,Date.now=()=>${this.now}`;
    const words = ['--import', clock, '--import', striking, program, 'push', this.#config, '--quiet'];
    const child = spawn(process.execPath, words, {
      cwd: this.folder,
      env: { PATH: process.env.PATH ?? '', HOME: this.folder, CDSYNC_KILLED_AT: at },
      stdio: 'ignore',
    });
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
    return signal === 'SIGKILL';
  }

  async forget(key: string): Promise<void> {
    const { config, only } = await this.#loaded();
    await withStorage(config, (engine) =>
      forget({ ...engine, clock: this.#clock }, only, {
        stream: 'members',
        keys: [key],
        destinations: [{ name: 'wh', streams: ['members'] }],
      }),
    );
  }

  async published(): Promise<Published> {
    const columns = await this.#open("SELECT path, column_name FROM cdsync.columns WHERE stream = 'members'");
    const types = new Map((await this.#open('DESCRIBE members')).map((row) => [row.column_name, row.column_type]));
    const keys = (await this.#open('SELECT id FROM members')).map(({ id }) => String(id));
    const feed = JSON.parse(await readFile(join(this.#job, 'parquet', 'members', 'manifest.json'), 'utf8')) as Row;
    const known = columns.filter(({ column_name }) => types.has(column_name));
    return {
      run: String(feed.run_id),
      sequence: Number(feed.sequence),
      types: new Map(known.map(({ path, column_name }) => [String(path), String(types.get(column_name))])),
      keys,
    };
  }

  /** Operations of a run, by key; undefined if the published file has none of that run. */
  async operations(run: string): Promise<ReadonlyMap<string, string> | undefined> {
    const load = `SELECT run_id FROM cdsync.streams WHERE stream = 'members' ORDER BY sequence, run_id LIMIT 1`;
    const rows = await this.#open(
      `SELECT id, _op FROM members__changes WHERE _run_id = '${run}'
       UNION ALL SELECT id, 'insert' FROM members WHERE _run_id = '${run}' AND _run_id = (${load})`,
    );
    return rows.length === 0 ? undefined : new Map(rows.map(({ id, _op }) => [String(id), String(_op)]));
  }

  /** Copies the storage folder. @returns puts it back */
  async keepStorage(): Promise<() => Promise<void>> {
    const copy = await mkdtemp(join(this.folder, 'kept-'));
    await cp(join(this.folder, 'data'), copy, { recursive: true, verbatimSymlinks: true });
    return async () => {
      await this.loseStorage();
      await cp(copy, join(this.folder, 'data'), { recursive: true, verbatimSymlinks: true });
    };
  }

  async loseStorage(): Promise<void> {
    await rm(join(this.folder, 'data'), { recursive: true, force: true });
  }

  /** The same installation on another machine: a copy of everything, as it is now. */
  async twin(): Promise<Product> {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-deliveries-twin-'));
    await cp(this.folder, folder, { recursive: true, verbatimSymlinks: true });
    const twin = new Product(
      this.service,
      folder,
      () => Promise.reject(new Error('only its pushes count')),
      this.#connectors,
    );
    twin.now = this.now;
    return twin;
  }

  removeTwin(): Promise<void> {
    return rm(this.folder, { recursive: true, force: true });
  }
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { loadConfig } from '../../../src/config/load.js';
import { systemClock } from '../../../src/core/clock.js';
import { asCdsyncError } from '../../../src/core/errors.js';
import type { JobReport } from '../../../src/core/run-report.js';
import { allowKeys } from '../../../src/delivery/erasure-log.js';
import { forget } from '../../../src/engine/admin/forget-person.js';
import { verifyJob } from '../../../src/engine/inspect/verify-job.js';
import { jobContext, withEngine, withStorage } from '../../../src/engine/open-engine.js';
import { newProgress } from '../../../src/engine/progress.js';
import { runAndDeliver } from '../../../src/engine/run/run-and-deliver.js';
import type { RunChoices } from '../../../src/engine/run-context.js';
import { openBudget } from '../../../src/rate-limit/open-budget.js';
import { ListService } from './list-service.js';

export const job = 'runs';

type Row = Record<string, unknown>;

/** The job's configuration in one run, the same for both sides. */
export interface Setup {
  readonly service: Row;
  readonly job: Row;
  readonly streams: readonly Row[];
  readonly destinations: readonly Row[];
}

/** How a run is cut short. */
export interface Cut {
  readonly how: 'signal' | 'kill';
  /** At which request of the run. */
  readonly atRequest: number;
  /** For a kill: whether it waits for a checkpoint. */
  readonly afterCheckpoint: boolean;
}

/** The result of one run: its report, or why there is none. */
export type RunResult = { readonly report: JobReport } | { readonly failure: string } | 'killed';

/** One storage folder, the service that it reads, and runs at times that the test decides. */
export class Side {
  readonly folder: string;
  readonly service: ListService;
  readonly #usesCache: boolean;
  now = 0;

  private constructor(folder: string, service: ListService, usesCache: boolean) {
    this.folder = folder;
    this.service = service;
    this.#usesCache = usesCache;
  }

  static async open(folder: string, usesCache: boolean): Promise<Side> {
    await mkdir(folder, { recursive: true });
    return new Side(folder, await ListService.open(), usesCache);
  }

  close(): Promise<void> {
    return this.service.close();
  }

  get jobFolder(): string {
    return join(this.folder, 'data', job);
  }

  get #configPath(): string {
    return join(this.folder, 'config.json');
  }

  async configure(setup: Setup): Promise<void> {
    const { service, streams, destinations } = setup;
    const settings = (setup.job.recognition ?? {}) as Row;
    const recognition = { ...settings, enabled: this.#usesCache };
    const config = {
      version: 1,
      service: {
        base_url: this.service.url,
        tenant_id: 'acme',
        auth: { token: 'secret' },
        budget: { shared: 'none' },
        retry: { patience: '2s', max_delay_ms: 100 },
        ...service,
      },
      storage: './data',
      resources: { memory_mb: 256, threads: 1 },
      jobs: { [job]: { ...setup.job, recognition, streams, ...(destinations.length > 0 ? { destinations } : {}) } },
    };
    await writeFile(this.#configPath, JSON.stringify(config));
  }

  async run(choices: Partial<RunChoices>, cut: Cut | undefined): Promise<RunResult> {
    if (cut?.how === 'kill') return this.#runKilled(cut);
    const stop = new AbortController();
    this.service.onRequest = (number) => {
      if (number === cut?.atRequest) stop.abort();
    };
    const config = await loadConfig(this.#configPath, { env: {}, needs: { destinations: true } });
    const [only] = config.jobs;
    if (only === undefined) throw new Error('the configuration has no job');
    const budget = openBudget(config.service.budget);
    const clock = { ...systemClock, now: () => this.now };
    const progress = newProgress(
      job,
      only.streams.map(({ name }) => name),
    );
    try {
      const engineOptions = { signal: stop.signal, notice: () => undefined, budget };
      const report = await withEngine(config, engineOptions, (engine) =>
        runAndDeliver({ ...jobContext({ ...engine, clock }, only, choices), progress }),
      );
      return { report };
    } catch (error) {
      const { code, message } = asCdsyncError(error);
      return { failure: `${code}: ${message}` };
    } finally {
      await budget.close();
    }
  }

  /** Runs the compiled program, and kills it. If the run ends before, the report that it kept counts. */
  async #runKilled({ atRequest, afterCheckpoint }: Cut): Promise<RunResult> {
    const program = join(import.meta.dirname, '..', '..', '..', 'dist', 'src', 'cli', 'main.js');
    const clock = `data:text/javascript,Date.now=()=>${this.now}`;
    const child = spawn(process.execPath, ['--import', clock, program, 'run', this.#configPath, '--json', '--quiet'], {
      cwd: this.folder,
      env: { PATH: process.env.PATH ?? '', HOME: this.folder },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const exit = once(child, 'exit');
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      shown += chunk;
    });
    this.service.onRequest = async (number) => {
      if (number !== atRequest) return;
      while (afterCheckpoint && !(await this.#hasCheckpoint())) await new Promise((resolve) => setTimeout(resolve, 20));
      child.kill('SIGKILL');
      await exit;
    };
    const [, signal] = (await exit) as [number | null, string | null];
    if (signal !== null) return 'killed';
    const document = JSON.parse(shown) as { jobs: JobReport[]; error: unknown };
    const [report] = document.jobs;
    return report === undefined ? { failure: JSON.stringify(document.error) } : { report };
  }

  async #hasCheckpoint(): Promise<boolean> {
    const files = await readdir(join(this.jobFolder, '.cdsync', 'runs'), { recursive: true }).catch(() => []);
    for (const name of files.filter((each) => /journal[^/]*$/.test(each))) {
      const text = await readFile(join(this.jobFolder, '.cdsync', 'runs', name), 'utf8').catch(() => '');
      if (text.includes('"checkpoint"')) return true;
    }
    return false;
  }

  /** Erases a record. @returns the result as JSON, or the code of the error */
  async forget(stream: string, key: string): Promise<string> {
    const config = await loadConfig(this.#configPath, { env: {}, needs: { destinations: true } });
    const [only] = config.jobs;
    if (only === undefined) throw new Error('the configuration has no job');
    const clock = { ...systemClock, now: () => this.now };
    try {
      const { rows, history, sequence, remains } = await withStorage(config, async (engine) => {
        const erased = await forget({ ...engine, clock }, only, { stream, keys: [key] });
        // The service has the record still: it returns, as any other.
        await allowKeys(engine.layoutOf(only.name), this.now, { keys: [key] });
        return erased;
      });
      // The texts of these records are so short that two of others, side by side in a DuckDB file, may make one of them.
      const notices = remains.filter((path) => !path.endsWith('.duckdb'));
      // Another stream may have the same key. With recognition it is in other files there.
      const streamOf = (path: string) =>
        /^\.cdsync\/(?:known|runs\/[^/]+\/streams)\/([^/]+)\//.exec(path)?.[1] ?? stream;
      // With recognition a snapshot has other files of other names: what counts is which folders have the texts.
      const left = notices
        .filter((path) => streamOf(path) === stream)
        .map((path) => dirname(path).replaceAll(/\d{8}T\d{6}Z-[0-9a-f]{6}/g, 'RUN'));
      return JSON.stringify({ rows, history, sequence, left: [...new Set(left)].sort() });
    } catch (error) {
      return asCdsyncError(error).code;
    }
  }

  /** What `cdsync verify` finds wrong. */
  async mismatches(): Promise<readonly unknown[]> {
    const config = await loadConfig(this.#configPath, { env: {}, needs: { destinations: true } });
    const [only] = config.jobs;
    if (only === undefined) throw new Error('the configuration has no job');
    return (await withStorage(config, (engine) => verifyJob(engine, only))).mismatches;
  }
}

import { type ChildProcess, spawn } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunReport } from '../../src/core/run-report.js';
import { type LocalService, startLocalService } from '../../src/local-service/service.js';
import { requestControl } from '../fixtures/control.js';
import { type Ended, runWarm } from '../fixtures/warm-cdsync.js';
import { ended } from '../fixtures/workspace.js';
import { delivered, destination, job, newRules, streams } from './situations.js';
import { type Strike, strikePreload, strikeVariables } from './strike.js';

const cdsync = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');

/** One document, with causes of errors on standard error. Showing values is safe: the people are invented. */
const shown = ['--json', '--quiet', '--verbose', '--show-values'];

/** Of every service of a lane, also of one in its own process. */
export const controlToken = 'control-of-a-lane';

/** Memory that the configuration allows. */
export const memoryMb = 256;

/** Profiles of the service: enough for several pages and one part of each stream. */
export const profiles = 2500;

export interface RunOptions {
  /** Name of the configuration. Default: that of the lane. */
  readonly name?: string;
  readonly strike?: Strike | 'record' | undefined;
  /** Wraps the command that runs the program: in a limit, or as another user. */
  readonly wrap?: (command: readonly string[]) => readonly string[];
}

export interface LaneOptions {
  readonly folder: string;
  /** State files for its service: before and after the day of changes that the runs read. */
  readonly service: { readonly before: string; readonly after: string };
  /** The same for all lanes: runs do not read audit events from before. */
  readonly since: string;
}

interface Configuration {
  /** Whether it has the new rules for columns. */
  readonly hasRules: boolean;
  /** Requests a second to the Profile API. Default: as many as the service allows. */
  readonly profileLimit?: number;
  /** How the client waits for the service. Default: for a second, in short pauses. */
  readonly retry?: { readonly patience: string; readonly max_delay_ms: number };
  /** Name of the file, without its ending. */
  readonly name?: string;
  readonly storage?: string;
}

/** A storage folder with its own service, where faults are tried one after the other. */
export class Lane {
  readonly folder: string;
  readonly #since: string;
  #service: LocalService | undefined;
  readonly #states: LaneOptions['service'];
  #port = 0;
  #moved = false;
  /** Standard output of the last run; empty if the run was killed. */
  #printed = '';

  private constructor({ folder, since, service }: LaneOptions) {
    this.folder = folder;
    this.#since = since;
    this.#states = service;
  }

  static async open(options: LaneOptions): Promise<Lane> {
    const lane = new Lane(options);
    for (const folder of ['', 'home', 'tmp', 'log', 'templates'])
      await mkdir(join(lane.folder, folder), { recursive: true });
    await lane.startService();
    await lane.configure({ hasRules: false });
    return lane;
  }

  async close(): Promise<void> {
    await this.stopService();
    await rm(this.folder, { recursive: true, force: true });
  }

  get storage(): string {
    return join(this.folder, 'data');
  }
  get jobFolder(): string {
    return join(this.storage, job);
  }
  get destination(): string {
    return join(this.storage, `${destination}.duckdb`);
  }
  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }
  get port(): number {
    return this.#port;
  }
  get stateFile(): string {
    return join(this.folder, 'service.json');
  }
  /** File with the steps that a run recorded, or was struck at. */
  get #report(): string {
    return join(this.folder, 'log', 'steps.txt');
  }

  async stopService(): Promise<void> {
    await this.#service?.close();
    this.#service = undefined;
  }

  /** Starts the service, always with the same data at the same address. */
  async startService(state: 'before' | 'after' = 'after', profileLimit?: number): Promise<void> {
    await this.stopService();
    this.#moved = state === 'before' || profileLimit !== undefined;
    await rm(`${this.stateFile}.events`, { force: true });
    await cp(this.#states[state], this.stateFile);
    this.#service = await startLocalService({
      port: this.#port,
      profiles,
      stateFile: this.stateFile,
      rateLimits: { management: 0, ...(profileLimit === undefined ? {} : { profile: profileLimit }) },
      controlToken,
    });
    this.#port = Number(new URL(this.#service.url).port);
  }

  #streams(hasRules: boolean): object[] {
    return streams.map((stream) => {
      if (stream.name === 'audit') return { ...stream, since: this.#since };
      return stream.name === 'members' && hasRules ? { ...stream, columns: newRules } : stream;
    });
  }

  /** Writes the configuration. */
  async configure({
    hasRules,
    profileLimit,
    retry = { patience: '2s', max_delay_ms: 100 },
    name = 'cdsync',
    storage = './data',
  }: Configuration): Promise<void> {
    const { tenantId, token } = this.#service as LocalService;
    const config = {
      version: 1,
      service: {
        base_url: this.url,
        tenant_id: tenantId,
        auth: { token },
        retry,
        timeouts_ms: { connect: 1000, first_byte: 3000, body: 1500, total: 5000 },
        rate_limits: { management: 1000, ...(profileLimit === undefined ? {} : { profile: profileLimit }) },
        concurrency: 4,
      },
      storage,
      resources: { memory_mb: memoryMb, threads: 2 },
      jobs: {
        [job]: {
          streams: this.#streams(hasRules),
          guards: { max_deleted: '100%', max_changed: '1000%' },
          keep: { snapshots: 1 },
          destinations: [
            {
              name: destination,
              connector: 'duckdb',
              path: `${storage}/${destination}.duckdb`,
              mode: 'mirror',
              streams: delivered,
            },
          ],
        },
      },
    };
    await writeFile(join(this.folder, `${name}.json`), JSON.stringify(config, null, 1));
  }

  /** A request to `/_control/<path>` of the present service. */
  askControl(path: string, init: Parameters<typeof requestControl>[2] = {}): Promise<Response> {
    return requestControl({ url: this.url, controlToken }, path, init);
  }

  /** `POST /_control/<path>`. Faults, and all other effects, last until {@link calm}. */
  async control(path: string, body: unknown = {}): Promise<void> {
    if (path !== 'faults') this.#moved = true;
    const response = await this.askControl(path, { method: 'POST', body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`/_control/${path}: ${response.status} ${await response.text()}`);
    await response.body?.cancel();
  }

  /** Restores the service to its state file, without faults. */
  async calm(): Promise<void> {
    if (this.#moved || this.#service === undefined) await this.startService();
    else await this.askControl('faults', { method: 'DELETE' });
  }

  get #environment(): Record<string, string> {
    return { PATH: process.env.PATH ?? '', HOME: join(this.folder, 'home'), TMPDIR: join(this.folder, 'tmp') };
  }

  /** Begins a run; {@link struck} reports whether its strike struck. */
  async start(options: RunOptions = {}): Promise<ChildProcess> {
    const { strike, wrap, name = 'cdsync' } = options;
    await rm(this.#report, { force: true });
    this.#printed = '';
    const preload = strike === undefined ? [] : strikePreload;
    const command = [process.execPath, ...preload, cdsync, 'run', `${name}.json`, ...shown];
    const [program = '', ...words] = wrap === undefined ? command : wrap(command);
    return spawn(program, words, {
      cwd: this.folder,
      env: {
        ...this.#environment,
        ...(strike === undefined ? {} : strikeVariables(this.storage, this.#report, strike)),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async run(options: RunOptions = {}): Promise<Ended> {
    const isCalm = options.strike === undefined && options.wrap === undefined;
    const end = isCalm ? await this.command(['run', 'cdsync.json', ...shown]) : await ended(await this.start(options));
    this.#printed = end.code === null ? '' : end.stdout;
    return end;
  }

  /** Whether the last run reported this stream as failed: then its rows are those from before. */
  hasFailed(stream: string): boolean {
    if (!this.#printed.startsWith('{')) return false;
    const { jobs = [] } = JSON.parse(this.#printed) as Partial<RunReport>;
    return jobs.some(({ streams }) => streams.some(({ name, status }) => name === stream && status === 'failed'));
  }

  /** Runs a command that nothing strikes. */
  command(words: readonly string[]): Promise<Ended> {
    return runWarm({ words, cwd: this.folder, env: this.#environment });
  }

  /** The steps in the last run's report. */
  async steps(): Promise<string[]> {
    const text = await readFile(this.#report, 'utf8').catch(() => '');
    return text.split('\n').slice(0, -1);
  }

  /** Whether the strike of the last run has struck. */
  async struck(): Promise<boolean> {
    return (await this.steps()).length > 0;
  }
}

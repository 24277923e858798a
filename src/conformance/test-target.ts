import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseConfig } from '../config/parse.js';
import { systemClock } from '../core/clock.js';
import { entriesBelow } from '../core/folders.js';
import type { JobReport } from '../core/run-report.js';
import { type CheckTarget, checkDestination } from '../delivery/check-destination.js';
import { type Reject, readRejects, rejectsPath } from '../delivery/delivery-state.js';
import { jobContext, noService, withEngine } from '../engine/open-engine.js';
import type { DeliverJobOptions } from '../engine/run/deliver-job.js';
import { pushJob } from '../engine/run/push-job.js';
import { runAndDeliver } from '../engine/run/run-and-deliver.js';
import { openBudget } from '../rate-limit/open-budget.js';
import type { DestinationContext, TableConnector, TableDestination } from '../sdk/destination.js';
import type { Manifest } from '../snapshot/manifest.js';
import { JobLayout } from '../storage/layout.js';
import { comparedRows, inMemory } from './compare.js';
import type { ComparedRow, TablePlace } from './harness.js';

type Json = Readonly<Record<string, unknown>>;

export interface SubjectOptions {
  readonly connector: TableConnector;
  readonly place: TablePlace;
  /** Further keys of the destination besides the place's, such as `mode`. */
  readonly destination?: Json;
  /** Key columns of the stream; default `id`. */
  readonly key?: readonly string[];
}

const never = new AbortController().signal;

/**
 * A job that delivers to the connector under test. Its one stream, `people`, is a query, so that snapshots need no service.
 * Everything else is the real thing: configuration, diff, commit, publishing, delivery.
 */
export class TestTarget {
  readonly folder: string;
  readonly place: TablePlace;
  connector: TableConnector;
  /** The destination's keys; may be changed between two deliveries. */
  destination: Json;
  readonly #key: readonly string[];

  private constructor(folder: string, { connector, place, destination = {}, key = ['id'] }: SubjectOptions) {
    this.folder = folder;
    this.connector = connector;
    this.place = place;
    this.destination = destination;
    this.#key = key;
  }

  static async open(options: SubjectOptions): Promise<TestTarget> {
    return new TestTarget(await mkdtemp(join(tmpdir(), 'cdsync-conformance-')), options);
  }

  get #connectors() {
    return new Map([['under_test', this.connector]]);
  }

  #config(more: readonly Json[] = []) {
    const destinations = [
      { name: 'target', connector: 'under_test', ...this.place.options, ...this.destination },
      ...more,
    ];
    const text = JSON.stringify({
      version: 1,
      service: { base_url: 'http://127.0.0.1:9', tenant_id: 'test', auth: { token: 'unused-token' } },
      storage: './data',
      resources: { memory_mb: 256, threads: 2 },
      jobs: {
        job: {
          streams: [{ name: 'people', source: 'sql', key: this.#key, query: "FROM read_parquet('rows.parquet')" }],
          guards: { min_rows: 0, max_deleted: '100%', max_changed: '100%' },
          destinations,
        },
      },
    });
    return parseConfig(text, join(this.folder, 'cdsync.json'), {
      env: {},
      needs: { destinations: true },
      connectors: this.#connectors,
    });
  }

  /** Makes a snapshot of the rows of a query, without delivering it. */
  async commit(query: string): Promise<JobReport> {
    return this.#run(query, false);
  }

  /** Makes a snapshot of the rows of a query, and delivers it. */
  async run(query: string, options: { readonly others?: readonly Json[]; readonly signal?: AbortSignal } = {}) {
    return this.#run(query, true, options);
  }

  async #run(
    query: string,
    delivers: boolean,
    { others = [], signal = never }: { readonly others?: readonly Json[]; readonly signal?: AbortSignal } = {},
  ): Promise<JobReport> {
    await this.#write(query);
    const config = this.#config(others);
    const [job] = config.jobs;
    if (job === undefined) throw new Error('the configuration has no job');
    const meant = delivers ? job : { ...job, destinations: [] };
    return withEngine(config, { signal, notice: () => undefined, budget: openBudget() }, (engine) =>
      runAndDeliver(jobContext(engine, meant, { accept: true })),
    );
  }

  /** Writes the rows of a query into the file that the stream reads, so that the stream's definition stays the same. */
  async #write(query: string): Promise<void> {
    await inMemory(async (connection) => {
      await connection.run(`COPY (${query}) TO '${join(this.folder, 'rows.parquet')}' (FORMAT parquet)`);
    });
  }

  /** Delivers the published snapshot. */
  async push(
    options: Partial<Pick<DeliverJobOptions, 'full' | 'adopt'>> & { readonly signal?: AbortSignal } = {},
  ): Promise<JobReport> {
    const config = this.#config();
    const [job] = config.jobs;
    if (job === undefined) throw new Error('the configuration has no job');
    const { signal = never, ...rest } = options;
    return pushJob(
      {
        layout: new JobLayout(config.storage, job.name),
        clock: systemClock,
        resources: config.resources,
        signal,
        notice: () => undefined,
        service: noService,
      },
      { job, progress: [], ...rest },
    );
  }

  /** Opens the destination as a delivery does. The caller closes it. */
  async openDestination(): Promise<TableDestination> {
    const [job] = this.#config().jobs;
    const options = job?.destinations[0]?.options as DestinationContext['options'];
    const folder = this.folder;
    const context = {
      destination: 'target',
      job: 'job',
      options,
      folder,
      keptFolder: folder,
      service: noService,
      signal: never,
    };
    return (await this.connector.open({ ...context, notice: () => undefined })) as TableDestination;
  }

  /** Tries the destination as `cdsync check` does. */
  async check(): Promise<CheckTarget> {
    const config = this.#config();
    const [destination] = config.jobs[0]?.destinations ?? [];
    if (destination === undefined) throw new Error('the configuration has no destination');
    const layout = new JobLayout(config.storage, 'job');
    return checkDestination({ layout, service: noService, signal: never, notice: () => undefined }, destination);
  }

  /** Deletes the storage folder: the next run begins with another store. */
  async loseStorage(): Promise<void> {
    await rm(join(this.folder, 'data'), { recursive: true, force: true });
  }

  /** The rows of the published snapshot. */
  async published(): Promise<ComparedRow[]> {
    const folder = join(this.folder, 'data', 'job', 'parquet', 'people');
    const { files } = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')) as Manifest;
    return comparedRows(`FROM read_parquet([${files.map(({ path }) => `'${join(folder, path)}'`).join(', ')}])`);
  }

  /** The keys of all records of all snapshots so far: a record that is gone is among the changes. */
  async everPublished(): Promise<(string | null)[]> {
    const folder = join(this.folder, 'data', 'job', 'parquet', 'people', 'changes');
    const files = await entriesBelow(folder).catch(() => []);
    const changes = files
      .filter(({ name }) => name.endsWith('.parquet'))
      .map(({ parentPath, name }) => `'${join(parentPath, name)}'`);
    const changed =
      changes.length === 0
        ? []
        : await comparedRows(`FROM read_parquet([${changes.join(', ')}], union_by_name = true)`);
    const keys = [...(await this.published()), ...changed].map((row) => row.get('id') ?? null);
    return [...new Set(keys)].sort();
  }

  /** The key of a row as rejects name it. */
  keyOf(row: ComparedRow): string | null {
    const texts = this.#key.map((name) => row.get(name) ?? null);
    return texts.length === 1 ? (texts[0] ?? null) : JSON.stringify(texts);
  }

  /** The values that the destination cannot hold. */
  rejects(): Promise<Reject[]> {
    return readRejects(rejectsPath(new JobLayout(join(this.folder, 'data'), 'job'), 'target', 'people'));
  }

  async close(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

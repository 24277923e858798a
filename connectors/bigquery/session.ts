import { loginRefused, type OptionValues, unavailable } from '../../src/sdk/index.js';
import { bigqueryError, type Place } from './errors.js';
import type { bigqueryOptions } from './options.js';
import type { BigqueryClient, BigquerySdk, ClientOptions, Job, LoadField } from './sdk.js';

export type BigqueryValues = OptionValues<typeof bigqueryOptions>;
export type Row = Readonly<Record<string, unknown>>;
export type Parameters = Readonly<Record<string, string | number>>;

const labels = { application: 'cdsync' };

function clientOptions({ project, location, keyFile, credentials }: BigqueryValues): ClientOptions {
  const common = { projectId: project, ...(location === undefined ? {} : { location }), userAgent: 'cdsync' };
  if (keyFile !== undefined) return { ...common, keyFilename: keyFile };
  if (credentials === undefined) return common;
  try {
    return { ...common, credentials: JSON.parse(credentials.reveal()) as Record<string, unknown> };
  } catch {
    // The parser's message would quote the text.
    throw loginRefused('`credentials` is not JSON', { hint: 'give it the content of the key file that Google issued' });
  }
}

/** Runs jobs in one dataset, one at a time. Every failure becomes an error of cdsync. */
export class Session {
  readonly #client: BigqueryClient;
  readonly #place: Place;
  #running: Job | undefined;
  #isStopped = false;

  /** Sends no request. */
  constructor({ BigQuery }: BigquerySdk, options: BigqueryValues) {
    const { project, dataset } = options;
    this.#place = { project, dataset };
    this.#client = new BigQuery(clientOptions(options));
  }

  get dataset(): string {
    return this.#place.dataset;
  }

  async #finished<T>(begin: () => Promise<readonly [Job, ...unknown[]]>, result: (job: Job) => Promise<T>): Promise<T> {
    try {
      const [job] = await begin();
      this.#running = job;
      if (this.#isStopped) await job.cancel().catch(() => undefined);
      return await result(job);
    } catch (error) {
      throw bigqueryError(error, this.#place);
    } finally {
      this.#running = undefined;
    }
  }

  #query(query: string, params: Parameters): Promise<readonly Row[]> {
    const { project: projectId, dataset: datasetId } = this.#place;
    const defaultDataset = { projectId, datasetId };
    const bound = Object.keys(params).length === 0 ? {} : { params };
    const request = { query, ...bound, useLegacySql: false, defaultDataset, labels } as const;
    return this.#finished(
      () => this.#client.createQueryJob(request),
      async (job) => (await job.getQueryResults())[0],
    );
  }

  /** Runs a statement or a script. Parameters are named: `@name`. */
  async rows(query: string, params: Parameters = {}): Promise<readonly Row[]> {
    if (this.#isStopped) throw unavailable('the load was stopped');
    return this.#query(query, params);
  }

  /** The result of a query that returns one number. */
  async number(query: string, params: Parameters = {}): Promise<number> {
    const [row] = await this.rows(query, params);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  /** Loads a file into an existing table. The first file replaces the table's rows, others add to them. */
  async loadFile(table: string, path: string, fields: LoadField[], isFirst: boolean): Promise<void> {
    if (this.#isStopped) throw unavailable('the load was stopped');
    const request = {
      sourceFormat: 'PARQUET',
      schema: { fields },
      createDisposition: 'CREATE_NEVER',
      writeDisposition: isFirst ? 'WRITE_TRUNCATE' : 'WRITE_APPEND',
    } as const;
    const target = this.#client.dataset(this.#place.dataset).table(table);
    await this.#finished(
      () => target.createLoadJob(path, request),
      (job) => job.promise(),
    );
  }

  /** Runs a query even after a stop, and ignores its failure. */
  async tidy(query: string): Promise<void> {
    await this.#query(query, {}).catch(() => undefined);
  }

  /** Cancels the job under way. From now on only `tidy` works. */
  stop(): void {
    this.#isStopped = true;
    void this.#running?.cancel().catch(() => undefined);
  }
}

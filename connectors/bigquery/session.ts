import { createHash, randomBytes } from 'node:crypto';
import {
  type LoadData,
  loginRefused,
  type OptionValues,
  type SqlRow,
  type SqlSession,
  sleep,
  unavailable,
  whileResponding,
} from '../../src/sdk/index.js';
import { identifier, literal } from './dialect.js';
import { bigqueryError, type Place } from './errors.js';
import type { bigqueryOptions } from './options.js';
import type {
  BigqueryClient,
  BigqueryFailure,
  BigquerySdk,
  ClientOptions,
  DmlStats,
  Job,
  LoadField,
  QueryRequest,
} from './sdk.js';
import { loadField } from './types.js';

type BigqueryValues = OptionValues<typeof bigqueryOptions>;

/** How long the API may take to respond to a small request. */
const answerMs = 10_000;
const labels = { application: 'cdsync' };
const dml = /^(INSERT|UPDATE|DELETE|MERGE)\s/;

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

/**
 * Runs jobs in one dataset, one at a time. A load has a session of BigQuery, because its transaction is of several jobs. If a delivery is
 * killed, that transaction stays open and excludes others, for up to a day: so the stage names its session, and the next delivery ends it.
 * Every failure becomes an error of cdsync.
 */
export class Session implements SqlSession {
  readonly #client: BigqueryClient;
  readonly #place: Place;
  /** Tables that begin so are stages of one destination of a job: only one delivery at a time loads it. */
  readonly #prefix: string;
  readonly #stage: string;
  #session: { readonly id: string; readonly location: string | undefined } | undefined;
  #left: readonly string[] = [];
  #running: Job | undefined;
  #isStopped = false;

  /** Sends no request. @param owner the job, and its destination */
  constructor({ BigQuery }: BigquerySdk, options: BigqueryValues, owner: string) {
    const { project, dataset } = options;
    this.#place = { project, dataset };
    this.#client = new BigQuery(clientOptions(options));
    this.#prefix = `_cdsync_rows_${createHash('sha256').update(owner).digest('hex').slice(0, 16)}_`;
    this.#stage = `${this.#prefix}${randomBytes(8).toString('hex')}`;
  }

  /** The table of a load's rows, and the session that loads them. */
  get stage(): { readonly name: string; readonly session: string } {
    return { name: this.#stage, session: this.#session?.id ?? '' };
  }

  /** SQL of a view of the catalog. */
  information(view: string): string {
    return `${identifier(this.#place.dataset)}.INFORMATION_SCHEMA.${view}`;
  }

  async #finished<T>(begin: () => Promise<readonly [Job, ...unknown[]]>, result: (job: Job) => Promise<T>): Promise<T> {
    const work = async () => {
      const [job] = await begin();
      this.#running = job;
      if (this.#isStopped) await job.cancel().catch(() => undefined);
      return result(job);
    };
    try {
      // The library waits for a response without end.
      return await whileResponding(work(), { server: 'BigQuery', responds: () => this.#responds() });
    } catch (error) {
      throw bigqueryError(error, this.#place);
    } finally {
      this.#running = undefined;
    }
  }

  /** Whether the API responds to a job that costs nothing, be it by a refusal. */
  async #responds(): Promise<boolean> {
    const asked = this.#client.createQueryJob({ ...this.#request('SELECT 1'), dryRun: true }).then(
      () => true,
      ({ code }: BigqueryFailure) => typeof code === 'number',
    );
    const ended = new AbortController();
    try {
      return await Promise.race([asked, sleep(answerMs, ended.signal).then(() => false)]);
    } finally {
      ended.abort();
    }
  }

  #request(query: string): QueryRequest {
    const { project: projectId, dataset: datasetId } = this.#place;
    return { query, useLegacySql: false, defaultDataset: { projectId, datasetId }, labels };
  }

  #query<T>(
    query: string,
    result: (job: Job) => Promise<T>,
    more: Pick<QueryRequest, 'createSession'> = {},
  ): Promise<T> {
    const { id, location } = this.#session ?? {};
    const session = id === undefined ? {} : { connectionProperties: [{ key: 'session_id', value: id }] as const };
    const within = { ...session, ...(location === undefined ? {} : { location }) };
    const request = { ...this.#request(query), ...within, ...more };
    return this.#finished(() => this.#client.createQueryJob(request), result);
  }

  #checked<T>(query: string, result: (job: Job) => Promise<T>, more?: Pick<QueryRequest, 'createSession'>): Promise<T> {
    if (this.#isStopped) throw unavailable('the load was stopped');
    return this.#query(query, result, more);
  }

  async rows(query: string): Promise<readonly SqlRow[]> {
    return this.#checked(query, async (job) => (await job.getQueryResults())[0]);
  }

  async #changed(query: string): Promise<DmlStats> {
    return this.#checked(query, async (job) => {
      await job.getQueryResults();
      if (!dml.test(query)) return {};
      const [{ statistics }] = await job.getMetadata();
      return statistics?.query?.dmlStats ?? {};
    });
  }

  async run(query: string): Promise<number> {
    const { insertedRowCount = 0, updatedRowCount = 0, deletedRowCount = 0 } = await this.#changed(query);
    return Number(insertedRowCount) + Number(updatedRowCount) + Number(deletedRowCount);
  }

  async netRowChange(query: string): Promise<number> {
    const { insertedRowCount = 0, deletedRowCount = 0 } = await this.#changed(query);
    return Number(insertedRowCount) - Number(deletedRowCount);
  }

  /** Begins the session of a load, and ends those of deliveries that were killed. */
  async begun(): Promise<void> {
    // The dataset decides where the session is.
    const left = await this.#checked(
      this.#stages,
      async (job) => {
        const [rows] = await job.getQueryResults();
        const [{ statistics }] = await job.getMetadata();
        const id = statistics?.sessionInfo?.sessionId;
        if (id === undefined) throw new Error('the job has begun no session');
        this.#session = { id, location: job.location };
        return rows;
      },
      { createSession: true },
    );
    await this.#abort(left);
  }

  /** Stages that deliveries have left, and their sessions. */
  get #stages(): string {
    return `SELECT t.table_name AS name, o.option_value AS session
      FROM ${this.information('TABLES')} AS t LEFT JOIN ${this.information('TABLE_OPTIONS')} AS o
      ON o.table_name = t.table_name AND o.option_name = 'description' WHERE STARTS_WITH(t.table_name, ${literal(this.#prefix)})`;
  }

  async #abort(stages: readonly SqlRow[]): Promise<void> {
    for (const { session } of stages) {
      // It may have ended.
      const id = String(session).replaceAll('"', '');
      await this.cleanUp(`CALL BQ.ABORT_SESSION(${literal(id)})`).catch(() => undefined);
    }
    this.#left = stages.map(({ name }) => String(name));
  }

  /** The stages that deliveries have left. If no load has begun here, their sessions are ended first. */
  async leftovers(): Promise<readonly string[]> {
    if (this.#session === undefined) await this.#abort(await this.rows(this.#stages));
    return this.#left;
  }

  /** Loads files into the stage: nothing else is filled. The first replaces its rows, others add to them. */
  async fill(target: string, data: LoadData): Promise<number> {
    const fields = data.columns.map(({ name, targetType: type }) => loadField({ name, type }));
    let isFirst = true;
    for await (const { path } of data.files()) {
      await this.#loadFile(path, fields, isFirst);
      isFirst = false;
    }
    const [row] = await this.rows(`SELECT COUNT(*) AS arrived FROM ${target}`);
    return Number(row?.arrived);
  }

  async #loadFile(path: string, fields: LoadField[], isFirst: boolean): Promise<void> {
    if (this.#isStopped) throw unavailable('the load was stopped');
    const request = {
      sourceFormat: 'PARQUET',
      schema: { fields },
      createDisposition: 'CREATE_NEVER',
      writeDisposition: isFirst ? 'WRITE_TRUNCATE' : 'WRITE_APPEND',
    } as const;
    const table = this.#client.dataset(this.#place.dataset).table(this.#stage);
    await this.#finished(
      () => table.createLoadJob(path, request),
      (job) => job.promise(),
    );
  }

  async begin(): Promise<void> {
    await this.run('BEGIN TRANSACTION');
  }

  async commit(): Promise<void> {
    await this.run('COMMIT TRANSACTION');
  }

  /** Also after a stop. */
  async rollback(): Promise<void> {
    await this.cleanUp('ROLLBACK TRANSACTION');
  }

  async cleanUp(query: string): Promise<number> {
    await this.#query(query, (job) => job.getQueryResults());
    return 0;
  }

  /** Cancels the job under way. From now on only `rollback` and `cleanUp` work. */
  stop(): void {
    this.#isStopped = true;
    void this.#running?.cancel().catch(() => undefined);
  }

  async close(): Promise<void> {
    if (this.#session !== undefined) await this.cleanUp('CALL BQ.ABORT_SESSION()').catch(() => undefined);
  }
}

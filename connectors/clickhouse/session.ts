import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type ClickHouseClient, ClickHouseLogLevel, type ClickHouseSettings, createClient } from '@clickhouse/client';
import type { Secret } from '../../src/sdk/index.js';
import { clickhouseError, type Rights } from './errors.js';
import { identifier } from './types.js';

/** A statement over a large table may take long; meanwhile the server sends a sign of life every `aliveMs`. */
const requestMs = 3_600_000;
const aliveMs = 20_000;
const headerBytes = 1 << 20;

const settings: ClickHouseSettings = {
  // A statement is complete when its answer comes, on every replica.
  async_insert: 0,
  wait_end_of_query: 1,
  alter_sync: '2',
  mutations_sync: '2',
  lightweight_deletes_sync: '2',
  select_sequential_consistency: '1',
  // NULL stays NULL, and a column that the file lacks is an error.
  insert_null_as_default: 0,
  input_format_null_as_default: 0,
  input_format_parquet_allow_missing_columns: 0,
  output_format_json_quote_64bit_integers: 1,
  send_progress_in_http_headers: 1,
  http_headers_progress_interval_ms: String(aliveMs),
};

export interface Login {
  readonly url: string;
  readonly username: string;
  readonly password?: Secret | undefined;
  readonly database: string;
}

export type Values = Readonly<Record<string, string | number>>;

/** Sends statements and files to one database. Every failure becomes an error of cdsync. */
export class Session {
  readonly #client: ClickHouseClient;
  readonly #rights: Rights;
  readonly #prefix: string;
  #signal: AbortSignal;

  /** @param name the prefix of the ids of all its queries */
  constructor({ url, username, password, database }: Login, name: string, signal: AbortSignal) {
    this.#rights = { user: username, database };
    this.#prefix = name;
    this.#signal = signal;
    this.#client = createClient({
      url,
      username,
      password: password?.reveal() ?? '',
      database,
      application: 'cdsync',
      request_timeout: requestMs,
      max_response_headers_size: headerBytes,
      clickhouse_settings: settings,
      log: { level: ClickHouseLogLevel.OFF },
    });
  }

  get database(): string {
    return this.#rights.database;
  }

  /** From now on this signal stops the statements under way. */
  use(signal: AbortSignal): void {
    this.#signal = signal;
  }

  #common(values: Values, more: ClickHouseSettings) {
    return {
      query_params: { ...values },
      clickhouse_settings: more,
      abort_signal: this.#signal,
      query_id: `${this.#prefix}-${randomUUID()}`,
    };
  }

  async #told<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw clickhouseError(error, this.#rights);
    }
  }

  rows(query: string, values: Values = {}, more: ClickHouseSettings = {}): Promise<Record<string, unknown>[]> {
    return this.#told(async () => {
      const answer = await this.#client.query({ query, format: 'JSONEachRow', ...this.#common(values, more) });
      return answer.json<Record<string, unknown>>();
    });
  }

  /** The result of a query that returns one number. */
  async number(query: string, values: Values = {}, more: ClickHouseSettings = {}): Promise<number> {
    const [row] = await this.rows(query, values, more);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  async run(query: string, values: Values = {}, more: ClickHouseSettings = {}): Promise<void> {
    await this.#told(() => this.#client.command({ query, ...this.#common(values, more) }));
  }

  /** Inserts the rows of a Parquet file, all or none. */
  async insertFile(table: string, columns: readonly string[], path: string, token: string): Promise<void> {
    const stream = createReadStream(path, { highWaterMark: 1 << 20 });
    const [first = '', ...rest] = columns.map(identifier);
    try {
      await this.#told(() =>
        this.#client.insert({
          table: identifier(table),
          columns: [first, ...rest],
          values: stream as never,
          format: 'Parquet',
          ...this.#common({}, { insert_deduplication_token: token, min_insert_block_size_bytes: '0' }),
        }),
      );
    } finally {
      stream.destroy();
    }
  }

  /** Stops statements that earlier attempts may have left running, and waits for their end. */
  async stopOthers(): Promise<void> {
    await this.run(
      `KILL QUERY WHERE user = currentUser() AND current_database = currentDatabase()
       AND startsWith(query_id, {prefix:String}) SYNC`,
      { prefix: `${this.#prefix}-` },
    );
  }

  async close(): Promise<void> {
    await this.#client.close().catch(() => undefined);
  }
}

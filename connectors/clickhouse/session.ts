import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  type ClickHouseClient,
  ClickHouseError,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client';
import {
  type LoadData,
  type OptionValues,
  type SqlRow,
  type SqlSession,
  whileResponding,
} from '../../src/sdk/index.js';
import { clickhouseError, type Rights } from './errors.js';
import type { clickhouseOptions } from './options.js';
import { identifier, literal } from './types.js';

/** A statement over a large table may take long; while it does, the server sends a sign of life every `aliveMs`. */
const requestMs = 3_600_000;
const aliveMs = 20_000;
/** A server that takes connections and never responds is away. */
const greetMs = 15_000;
const headerBytes = 1 << 20;
const never = new AbortController().signal;

const settings: ClickHouseSettings = {
  // A statement is complete when its response arrives, on every replica.
  async_insert: 0,
  wait_end_of_query: 1,
  alter_sync: '2',
  mutations_sync: '2',
  lightweight_deletes_sync: '2',
  select_sequential_consistency: '1',
  // Only the last row of each key is read, from a table that keeps one row of each.
  final: 1,
  // A column of a table goes before an alias of the same name.
  prefer_column_name_to_alias: 1,
  // For tables of many columns.
  max_query_size: String(64 << 20),
  max_ast_elements: '1000000',
  max_expanded_ast_elements: '1000000',
  // NULL stays NULL, and a column that the file lacks is an error.
  insert_null_as_default: 0,
  input_format_null_as_default: 0,
  input_format_parquet_allow_missing_columns: 0,
  output_format_json_quote_64bit_integers: 1,
  send_progress_in_http_headers: 1,
  http_headers_progress_interval_ms: String(aliveMs),
};

/** Sends statements and files to one database. Every failure becomes an error of cdsync. */
export class Session implements SqlSession {
  readonly #options: Parameters<typeof createClient>[0];
  readonly #client: ClickHouseClient;
  readonly #rights: Rights;
  readonly #prefix: string;
  readonly #stopping = new AbortController();
  readonly #signal: AbortSignal;

  /** @param name the prefix of the ids of all its queries */
  constructor(
    { url, username, password, database }: OptionValues<typeof clickhouseOptions>,
    name: string,
    signal: AbortSignal,
  ) {
    this.#rights = { user: username, database };
    this.#prefix = name;
    this.#signal = AbortSignal.any([signal, this.#stopping.signal]);
    this.#options = {
      url,
      username,
      password: password?.reveal() ?? '',
      database,
      application: 'cdsync',
      request_timeout: requestMs,
      max_response_headers_size: headerBytes,
      clickhouse_settings: settings,
      log: { level: ClickHouseLogLevel.OFF },
    };
    this.#client = createClient(this.#options);
  }

  get #common() {
    return { abort_signal: this.#signal, query_id: `${this.#prefix}-${randomUUID()}` };
  }

  /** Some statements over a large table take long, and the server gives no sign of life. */
  async #classified<T>(work: () => Promise<T>): Promise<T> {
    const responds = () =>
      this.#greeted({ abort_signal: never }).then(
        () => true,
        (error) => error instanceof ClickHouseError || clickhouseError(error, this.#rights).kind !== 'retryable',
      );
    try {
      return await whileResponding(work(), { server: 'ClickHouse', responds, cut: () => this.stop() });
    } catch (error) {
      throw clickhouseError(error, this.#rights);
    }
  }

  /** @throws {CdsyncError} `destination_unavailable` if the server does not respond soon */
  async greet(): Promise<void> {
    await this.#greeted({}).catch((error) => {
      throw clickhouseError(error, this.#rights);
    });
  }

  async #greeted(more: { readonly abort_signal?: AbortSignal }): Promise<void> {
    const client = createClient({ ...this.#options, request_timeout: greetMs });
    try {
      await client.command({ query: 'SELECT 1', ...this.#common, ...more });
    } finally {
      await client.close().catch(() => undefined);
    }
  }

  rows(query: string): Promise<SqlRow[]> {
    return this.#classified(async () => {
      const result = await this.#client.query({ query, format: 'JSONEachRow', ...this.#common });
      return result.json<Record<string, unknown>>();
    });
  }

  /** @returns always 0: not every server reports how many rows a statement changes */
  async run(query: string): Promise<number> {
    await this.#command(query, {});
    return 0;
  }

  async cleanUp(query: string): Promise<number> {
    await this.#command(query, { abort_signal: never });
    return 0;
  }

  #command(query: string, more: { readonly abort_signal?: AbortSignal }): Promise<unknown> {
    // Replicated tables leave out an insert with the rows of an earlier one, unless its token is new; those rows may be gone.
    const clickhouse_settings = { insert_deduplication_token: randomUUID() };
    return this.#classified(() => this.#client.command({ query, clickhouse_settings, ...this.#common, ...more }));
  }

  async fill(target: string, data: LoadData): Promise<number> {
    const [first = '', ...rest] = data.columns.map(({ name }) => identifier(name));
    for await (const { path } of data.files()) {
      const stream = createReadStream(path, { highWaterMark: 1 << 20 });
      try {
        await this.#classified(() =>
          this.#client.insert({
            table: target,
            columns: [first, ...rest],
            values: stream as never,
            format: 'Parquet',
            clickhouse_settings: { insert_deduplication_token: randomUUID(), min_insert_block_size_bytes: '0' },
            ...this.#common,
          }),
        );
      } finally {
        stream.destroy();
      }
    }
    const [row] = await this.rows(`SELECT count() AS n FROM ${target}`);
    return Number(row?.n);
  }

  /** Stops statements that earlier attempts may have left running, and waits for their end. */
  async stopOthers(): Promise<void> {
    const prefix = literal(`${this.#prefix}-`);
    await this.run(
      `KILL QUERY WHERE user = currentUser() AND current_database = currentDatabase() AND startsWith(query_id, ${prefix}) SYNC`,
    );
  }

  stop(): void {
    this.#stopping.abort();
  }

  async close(): Promise<void> {
    await this.#client.close().catch(() => undefined);
  }
}

import pg from 'pg';
import { callAfter } from '../../core/clock.js';
import { withoutPostgresTls, withPostgresTls } from '../encryption.js';
import type { LoadData } from '../load.js';
import { orClose } from '../opened-destination.js';
import { type SqlRow, type SqlSession, TransactionalSession } from '../sql/dialect.js';
import { whileResponding } from '../sql/while-responding.js';
import { copyFile } from './copy.js';
import { postgresError, type Rights } from './errors.js';
import type { PostgresContext, PostgresFamily } from './family.js';

const connectMs = 15_000;
/** If others lock a table for longer than this, the load is repeated. */
const lockMs = 60_000;

/** One connection, with the user and the place that errors name. */
export class PostgresSession extends TransactionalSession implements SqlSession {
  readonly client: pg.Client;
  readonly rights: Rights;
  readonly #login: pg.ClientConfig;

  private constructor(client: pg.Client, rights: Rights, login: pg.ClientConfig) {
    super();
    this.client = client;
    this.rights = rights;
    this.#login = login;
  }

  /** Connects, with the settings that loads rely on. */
  static async open(
    { options, destination }: PostgresContext,
    { product, port }: PostgresFamily,
  ): Promise<PostgresSession> {
    const url = new URL(options.url.reveal());
    if (url.port === '' && port !== undefined) url.port = String(port);
    // The driver knows the host of a URL without one.
    const { host } = new pg.Client({ connectionString: withoutPostgresTls(url).href });
    const place = withPostgresTls(url, host, options.tls);
    // The driver takes nothing else beside a URL: of one without a password it would send an empty one.
    if (options.password !== undefined) place.searchParams.set('password', options.password.reveal());
    const login = {
      connectionString: place.href,
      connectionTimeoutMillis: connectMs,
      keepAlive: true,
      application_name: `cdsync ${destination}`,
    };
    const client = new pg.Client(login);
    const rights: Rights = {
      product,
      user: client.user ?? decodeURIComponent(url.username),
      database: client.database ?? url.pathname.slice(1),
      schema: options.schema,
    };
    // An idle connection that breaks reports it here; ignore that, because the next statement fails anyhow.
    client.on('error', () => undefined);
    const session = new PostgresSession(client, rights, login);
    return orClose(session, async () => {
      await session.#classified(client.connect());
      await session.run(
        `SET TIME ZONE 'UTC'; SET lock_timeout = ${lockMs}; SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET quote_all_identifiers = off`,
      );
      return session;
    });
  }

  async #classified<T>(work: Promise<T>): Promise<T> {
    const { askMs: everyMs } = this;
    const asked = {
      server: this.rights.product,
      responds: () => responds(this.#login),
      cut: () => this.stop(),
      everyMs,
    };
    try {
      return await whileResponding(work, asked);
    } catch (error) {
      throw postgresError(error, this.rights);
    }
  }

  async #query(sql: string): Promise<{ rows: SqlRow[]; count: number }> {
    const { rows, rowCount } = await this.#classified(this.client.query<SqlRow & Record<string, unknown>>(sql));
    return { rows, count: rowCount ?? 0 };
  }

  async rows(sql: string): Promise<SqlRow[]> {
    return (await this.#query(sql)).rows;
  }

  async run(sql: string): Promise<number> {
    return (await this.#query(sql)).count;
  }

  fill(target: string, data: LoadData, signal: AbortSignal): Promise<number> {
    const { columns } = data;
    return this.loadFiles(data, (file) => this.#classified(copyFile(this.client, file, { target, columns, signal })));
  }

  stop(): void {
    // With a statement under way this cuts the connection, and the server rolls back.
    void this.client.end().catch(() => undefined);
  }

  async close(): Promise<void> {
    // A silent server never ends the connection.
    const cancel = callAfter(connectMs, () => this.client.connection.stream.destroy());
    await this.client.end().catch(() => undefined);
    cancel();
  }
}

/** Whether the server responds to a new connection, be it by a refusal. */
async function responds(login: pg.ClientConfig): Promise<boolean> {
  const client = new pg.Client(login);
  client.on('error', () => undefined);
  try {
    await client.connect();
    return true;
  } catch (error) {
    return error instanceof pg.DatabaseError;
  } finally {
    void client.end().catch(() => undefined);
  }
}

import pg from 'pg';
import {
  type DestinationContext,
  type LoadData,
  type SqlRow,
  type SqlSession,
  TransactionalSession,
  withoutPostgresTls,
  withPostgresTls,
} from '../../src/sdk/index.js';
import { copyFile } from './copy.js';
import { postgresError, type Rights } from './errors.js';
import type { postgresOptions } from './options.js';

const connectMs = 15_000;
/** If others lock a table for longer than this, the load is repeated. */
const lockMs = 60_000;

/** One connection, with the user and the place that errors name. */
export class PostgresSession extends TransactionalSession implements SqlSession {
  readonly client: pg.Client;
  readonly rights: Rights;

  private constructor(client: pg.Client, rights: Rights) {
    super();
    this.client = client;
    this.rights = rights;
  }

  /** Connects, with the settings that loads rely on. */
  static async open({ options, destination }: DestinationContext<typeof postgresOptions>): Promise<PostgresSession> {
    const url = new URL(options.url.reveal());
    // The driver knows the host of a URL without one.
    const { host } = new pg.Client({ connectionString: withoutPostgresTls(url).href });
    const client = new pg.Client({
      connectionString: withPostgresTls(url, host, options.tls).href,
      ...(options.password === undefined ? {} : { password: options.password.reveal() }),
      connectionTimeoutMillis: connectMs,
      keepAlive: true,
      application_name: `cdsync ${destination}`,
    });
    const rights: Rights = {
      user: client.user ?? decodeURIComponent(url.username),
      database: client.database ?? url.pathname.slice(1),
      schema: options.schema,
    };
    // An idle connection that breaks reports it here; ignore that, because the next statement fails anyhow.
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.query(
        `SET TIME ZONE 'UTC'; SET lock_timeout = ${lockMs}; SET client_encoding = 'UTF8'; SET standard_conforming_strings = on`,
      );
    } catch (error) {
      await client.end().catch(() => undefined);
      throw postgresError(error, rights);
    }
    return new PostgresSession(client, rights);
  }

  async #query(sql: string): Promise<{ rows: SqlRow[]; count: number }> {
    try {
      const { rows, rowCount } = await this.client.query<SqlRow & Record<string, unknown>>(sql);
      return { rows, count: rowCount ?? 0 };
    } catch (error) {
      throw postgresError(error, this.rights);
    }
  }

  async rows(sql: string): Promise<SqlRow[]> {
    return (await this.#query(sql)).rows;
  }

  async run(sql: string): Promise<number> {
    return (await this.#query(sql)).count;
  }

  async fill(target: string, data: LoadData, signal: AbortSignal): Promise<number> {
    const { columns } = data;
    try {
      return await this.loadFiles(data, (file) => copyFile(this.client, file, { target, columns, signal }));
    } catch (error) {
      throw postgresError(error, this.rights);
    }
  }

  stop(): void {
    // With a statement under way this cuts the connection, and the server rolls back.
    void this.client.end().catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.client.end().catch(() => undefined);
  }
}

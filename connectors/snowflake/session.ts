import { pathToFileURL } from 'node:url';
import { loginRefused, type OptionValues, unavailable } from '../../src/sdk/index.js';
import { type Rights, snowflakeError } from './errors.js';
import type { snowflakeOptions } from './options.js';
import type { Connection, ConnectionOptions, SnowflakeSdk, Statement } from './sdk.js';

export type SnowflakeValues = OptionValues<typeof snowflakeOptions>;
export type Row = Readonly<Record<string, unknown>>;

/** If others lock a table for longer than this, the load is repeated. */
const lockSeconds = 600;

/** The settings that loads rely on, whatever the defaults of the account and the user are. */
const sessionParameters = [
  "TIMEZONE = 'UTC'",
  'AUTOCOMMIT = TRUE',
  'QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE',
  `LOCK_TIMEOUT = ${lockSeconds}`,
  "QUERY_TAG = 'cdsync'",
];

function login(options: SnowflakeValues): Partial<ConnectionOptions> & Pick<ConnectionOptions, 'authenticator'> {
  const { privateKey, privateKeyPath, privateKeyPassphrase, token, oauthToken, password } = options;
  const passphrase = privateKeyPassphrase === undefined ? {} : { privateKeyPass: privateKeyPassphrase.reveal() };
  if (privateKey !== undefined)
    return { authenticator: 'SNOWFLAKE_JWT', privateKey: privateKey.reveal(), ...passphrase };
  if (privateKeyPath !== undefined) return { authenticator: 'SNOWFLAKE_JWT', privateKeyPath, ...passphrase };
  if (token !== undefined) return { authenticator: 'PROGRAMMATIC_ACCESS_TOKEN', token: token.reveal() };
  if (oauthToken !== undefined) return { authenticator: 'OAUTH', token: oauthToken.reveal() };
  return { authenticator: 'SNOWFLAKE', password: password?.reveal() ?? '' };
}

function connectionOptions(options: SnowflakeValues): ConnectionOptions {
  const { account, username, database, schema, warehouse, role } = options;
  return {
    account,
    username,
    ...login(options),
    database,
    schema,
    ...(warehouse === undefined ? {} : { warehouse }),
    ...(role === undefined ? {} : { role }),
    application: 'cdsync',
    clientSessionKeepAlive: true,
  };
}

/** Runs statements in one schema, one at a time. Every failure becomes an error of cdsync. */
export class Session {
  readonly #connection: Connection;
  readonly #rights: Rights;
  #running: Statement | undefined;
  #isStopped = false;

  private constructor(connection: Connection, rights: Rights) {
    this.#connection = connection;
    this.#rights = rights;
  }

  static async open(sdk: SnowflakeSdk, options: SnowflakeValues): Promise<Session> {
    const { username: user, role, database, schema } = options;
    const rights = { user, role, database, schema };
    let connection: Connection;
    try {
      // By default the driver writes a log to the standard output.
      sdk.configure({ logLevel: 'OFF' });
      connection = sdk.createConnection(connectionOptions(options));
      await new Promise<void>((resolve, reject) => {
        connection.connect((error) => (error ? reject(error) : resolve()));
      });
    } catch (error) {
      throw snowflakeError(error, rights);
    }
    const session = new Session(connection, rights);
    try {
      await session.#prepare();
    } catch (error) {
      await session.close();
      throw error;
    }
    return session;
  }

  async #prepare(): Promise<void> {
    // If the schema is missing, Snowflake begins the session without one.
    const [place] = await this.rows('SELECT CURRENT_SCHEMA() AS "schema"');
    if (place?.schema == null) {
      const { database, schema } = this.#rights;
      throw loginRefused(`the schema ${database}.${schema} does not exist, or its use is not granted`, {
        hint: `CREATE SCHEMA ${database}.${schema}; GRANT USAGE ON SCHEMA … to the role; write names as in SQL, in quotes where needed`,
      });
    }
    for (const parameter of sessionParameters) await this.run(`ALTER SESSION SET ${parameter}`);
  }

  #execute(sqlText: string, binds: readonly (string | number)[]): Promise<{ rows: readonly Row[]; changed: number }> {
    return new Promise((resolve, reject) => {
      this.#running = this.#connection.execute({
        sqlText,
        binds: [...binds],
        fetchAsString: ['Number'],
        complete: (error, statement, rows) => {
          this.#running = undefined;
          if (error) reject(snowflakeError(error, this.#rights));
          else resolve({ rows: rows ?? [], changed: statement.getNumUpdatedRows() ?? 0 });
        },
      });
    });
  }

  async #checked(sql: string, binds: readonly (string | number)[]) {
    if (this.#isStopped) throw unavailable('the load was stopped');
    try {
      return await this.#execute(sql, binds);
    } catch (error) {
      throw snowflakeError(error, this.#rights);
    }
  }

  /** The rows of a statement: columns under the statement's names, integers as text. */
  async rows(sql: string, binds: readonly (string | number)[] = []): Promise<readonly Row[]> {
    return (await this.#checked(sql, binds)).rows;
  }

  /** The result of a query that returns one number. */
  async number(sql: string, binds: readonly (string | number)[] = []): Promise<number> {
    const [row] = await this.rows(sql, binds);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  /** @returns how many rows the statement has changed */
  async run(sql: string, binds: readonly (string | number)[] = []): Promise<number> {
    return (await this.#checked(sql, binds)).changed;
  }

  /** Puts a file where `COPY INTO` finds it. The later count of rows shows whether it arrived. */
  async put(path: string, stage: string): Promise<void> {
    const { pathname } = pathToFileURL(path);
    const local = decodeURIComponent(pathname).replaceAll('\\', '\\\\').replaceAll("'", "\\'");
    await this.run(`PUT 'file://${local}' ${stage} AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = NONE OVERWRITE = TRUE`);
  }

  /** Commits all of `work` or nothing, even after a stop. `work` must hold no DDL: that would commit the statements before it. */
  async transaction(work: () => Promise<void>): Promise<void> {
    await this.run('BEGIN TRANSACTION');
    try {
      await work();
      await this.run('COMMIT');
    } catch (error) {
      await this.#execute('ROLLBACK', []).catch(() => undefined);
      throw error;
    }
  }

  /** Runs a statement even after a stop, and ignores its failure. */
  async tidy(sql: string): Promise<void> {
    await this.#execute(sql, []).catch(() => undefined);
  }

  /** Cancels the statement under way. From now on only a rollback and `tidy` work. */
  stop(): void {
    this.#isStopped = true;
    this.#running?.cancel(() => undefined);
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      try {
        this.#connection.destroy(() => resolve());
      } catch {
        resolve();
      }
    });
  }
}

import { randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import {
  type LoadData,
  loginRefused,
  type OptionValues,
  orClose,
  type SqlRow,
  type SqlSession,
  silenceMs,
  unavailable,
  whileResponding,
} from '../../src/sdk/index.js';
import { fileStage } from './dialect.js';
import { type Rights, snowflakeError } from './errors.js';
import type { snowflakeOptions } from './options.js';
import type { Connection, ConnectionOptions, SnowflakeSdk, Statement } from './sdk.js';

type SnowflakeValues = OptionValues<typeof snowflakeOptions>;

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
  const { account, host, username, database, schema, warehouse, role } = options;
  return {
    account,
    ...(host === undefined ? {} : { accessUrl: host.includes('://') ? host : `https://${host}` }),
    username,
    ...login(options),
    database,
    schema,
    ...(warehouse === undefined ? {} : { warehouse }),
    ...(role === undefined ? {} : { role }),
    application: 'cdsync',
    clientSessionKeepAlive: true,
    representNullAsStringNull: false,
  };
}

/** Runs statements in one schema, one at a time. Every failure becomes an error of cdsync. */
export class Session implements SqlSession {
  /** Digits that no other session has. */
  readonly id = randomBytes(8).toString('hex');
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
      const connected = new Promise<void>((resolve, reject) => {
        connection.connect((error) => (error ? reject(error) : resolve()));
      });
      // The driver asks a silent server for six minutes.
      const responds = async () => false;
      await whileResponding(connected, { server: 'Snowflake', responds, everyMs: silenceMs });
    } catch (error) {
      throw snowflakeError(error, rights);
    }
    const session = new Session(connection, rights);
    await orClose(session, () => session.#prepare());
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

  #execute(sqlText: string): Promise<{ rows: readonly SqlRow[]; changed: number }> {
    const done = new Promise<{ rows: readonly SqlRow[]; changed: number }>((resolve, reject) => {
      this.#running = this.#connection.execute({
        sqlText,
        fetchAsString: ['Number'],
        complete: (error, statement, rows) => {
          this.#running = undefined;
          if (error) reject(error);
          else resolve({ rows: rows ?? [], changed: statement.getNumUpdatedRows() ?? 0 });
        },
      });
    });
    return done.catch((error: unknown) => {
      throw snowflakeError(error, this.#rights);
    });
  }

  async #checked(sql: string) {
    if (this.#isStopped) throw unavailable('the load was stopped');
    return this.#execute(sql);
  }

  /** Columns have the statement's names, in capitals where they are without quotes; integers come as text. */
  async rows(sql: string): Promise<readonly SqlRow[]> {
    return (await this.#checked(sql)).rows;
  }

  async run(sql: string): Promise<number> {
    return (await this.#checked(sql)).changed;
  }

  async netRowChange(sql: string): Promise<number> {
    const [counts] = await this.rows(sql);
    return Number(counts?.['number of rows inserted'] ?? 0) - Number(counts?.['number of rows deleted'] ?? 0);
  }

  /** Puts files into the session's stage, then copies all of them at once. The count shows whether they arrived. */
  async fill(target: string, data: LoadData): Promise<number> {
    const stage = fileStage(this.id);
    let files = 0;
    for await (const { path } of data.files()) {
      await this.#put(path, `@${stage}/${files}/`);
      files += 1;
    }
    if (files > 0)
      await this.run(`COPY INTO ${target} FROM @${stage}/
        FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE)
        MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT`);
    const [row] = await this.rows(`SELECT COUNT(*) AS "rows" FROM ${target}`);
    return Number(row?.rows);
  }

  async #put(path: string, place: string): Promise<void> {
    const { pathname } = pathToFileURL(path);
    const local = decodeURIComponent(pathname).replaceAll('\\', '\\\\').replaceAll("'", "\\'");
    await this.run(`PUT 'file://${local}' ${place} AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = NONE OVERWRITE = TRUE`);
  }

  async begin(): Promise<void> {
    await this.run('BEGIN TRANSACTION');
  }

  async commit(): Promise<void> {
    await this.run('COMMIT');
  }

  /** Even after a stop. */
  async rollback(): Promise<void> {
    await this.#execute('ROLLBACK');
  }

  /** Cancels the statement under way. From now on only a rollback works. */
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

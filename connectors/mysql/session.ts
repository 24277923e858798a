import { connect, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import mysql, { type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import {
  callAfter,
  decodedLogin,
  isThisMachine,
  type LoadData,
  loadRefused,
  type OptionValues,
  type SqlSession,
  TransactionalSession,
  whileResponding,
} from '../../src/sdk/index.js';
import { loadFile } from './bulk-load.js';
import { lockSeconds } from './dialect.js';
import { mysqlError, type Rights, type ServerError } from './errors.js';
import type { mysqlOptions } from './options.js';

const connectMs = 15_000;

/** Collations of MySQL and of MariaDB under which texts are equal only if they are the same, trailing spaces included. */
const exactCollations = ['utf8mb4_0900_bin', 'utf8mb4_nopad_bin'];

type MysqlValues = OptionValues<typeof mysqlOptions>;

function connectionOptions({ url, password, tls }: MysqlValues): mysql.ConnectionOptions {
  const { hostname, port, username, password: inUrl, pathname } = new URL(url.reveal());
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const encryption = tls ?? (isThisMachine(host) ? 'off' : 'verify');
  return {
    host,
    port: port === '' ? 3306 : Number(port),
    user: decodedLogin(username),
    password: password?.reveal() ?? decodedLogin(inUrl),
    database: decodedLogin(pathname.slice(1)),
    charset: 'utf8mb4_bin',
    connectTimeout: connectMs,
    // Numbers and times as the server writes them.
    dateStrings: true,
    supportBigNumbers: true,
    bigNumberStrings: true,
    ...(encryption === 'off' ? {} : { ssl: { rejectUnauthorized: encryption === 'verify', verifyIdentity: true } }),
  };
}

/** One connection, with the settings that loads rely on. Every failure becomes an error of cdsync. */
export class Session extends TransactionalSession implements SqlSession {
  readonly #connection: mysql.Connection;
  readonly #socket: Socket;
  readonly #login: mysql.ConnectionOptions;
  #rights: Rights;
  #collation = '';
  #packetBytes = 0;

  private constructor(connection: mysql.Connection, socket: Socket, login: mysql.ConnectionOptions, rights: Rights) {
    super();
    this.#login = login;
    this.#connection = connection;
    this.#socket = socket;
    this.#rights = rights;
    // An idle connection that breaks reports it here; ignore that, because the next statement fails anyhow.
    connection.on('error', () => undefined);
  }

  static async open(values: MysqlValues): Promise<Session> {
    const options = connectionOptions(values);
    const rights: Rights = { user: options.user ?? '', database: options.database ?? '' };
    const socket = socketFor(options);
    try {
      const connection = await mysql.createConnection({ ...options, stream: socket });
      const session = new Session(connection, socket, options, rights);
      await session.#prepare();
      return session;
    } catch (error) {
      socket.destroy();
      throw mysqlError(error, rights);
    }
  }

  /** The collation for comparing texts. */
  get collation(): string {
    return this.#collation;
  }

  get isMysql(): boolean {
    return this.#collation === exactCollations[0];
  }

  /** `max_allowed_packet`: the server makes no longer value, and sends none. */
  get packetBytes(): number {
    return this.#packetBytes;
  }

  get database(): string {
    return this.#rights.database;
  }

  async #prepare(): Promise<void> {
    await this.run('SET NAMES utf8mb4');
    await this.run(`SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
      autocommit = 1, lock_wait_timeout = ${lockSeconds}, innodb_lock_wait_timeout = ${lockSeconds}`);
    const [login] = await this.rows('SELECT current_user() AS user, @@max_allowed_packet AS packet');
    this.#packetBytes = Number(login?.packet);
    this.#rights = { ...this.#rights, user: String(login?.user) };
    const rows = await this.rows(
      'SELECT COLLATION_NAME AS name FROM information_schema.COLLATIONS WHERE COLLATION_NAME IN (?, ?)',
      exactCollations,
    );
    const names = rows.map(({ name }) => String(name));
    const collation = exactCollations.find((name) => names.includes(name));
    if (collation === undefined)
      throw loadRefused('the server is too old', { hint: 'MySQL 8.0.17, MariaDB 10.2, or later' });
    this.#collation = collation;
    // So that literals meet the texts of columns as they are.
    await this.run(`SET NAMES utf8mb4 COLLATE ${collation}`);
  }

  async rows(sql: string, values: readonly unknown[] = []): Promise<RowDataPacket[]> {
    return this.#query<RowDataPacket[]>({ sql, values: [...values] });
  }

  async run(sql: string, values: readonly unknown[] = []): Promise<number> {
    return (await this.send(sql, values)).affectedRows;
  }

  /** @param infile the data that the server reads for a LOAD DATA LOCAL */
  async send(sql: string, values: readonly unknown[] = [], infile?: Readable): Promise<ResultSetHeader> {
    const stream = infile === undefined ? {} : { infileStreamFactory: () => infile };
    try {
      return await this.#query<ResultSetHeader>({ sql, values: [...values], ...stream });
    } finally {
      infile?.destroy();
    }
  }

  fill(target: string, data: LoadData): Promise<number> {
    const { columns } = data;
    return this.loadFiles(data, (file) => loadFile(this, file, { target, columns }));
  }

  async #query<T extends RowDataPacket[] | ResultSetHeader>(query: mysql.QueryOptions): Promise<T> {
    const { askMs: everyMs } = this;
    const asked = { server: 'MySQL', responds: () => responds(this.#login), cut: () => this.stop(), everyMs };
    try {
      const [result] = await whileResponding(this.#connection.query<T>(query), asked);
      return result;
    } catch (error) {
      throw mysqlError(error, this.#rights);
    }
  }

  /** Cuts the connection: the statement under way fails at once, and the server rolls back. */
  stop(): void {
    this.#socket.destroy(new Error('the load was stopped'));
  }

  async close(): Promise<void> {
    // A silent server never ends the connection.
    const cancel = callAfter(connectMs, () => this.#socket.destroy());
    await this.#connection.end().catch(() => undefined);
    cancel();
    this.#socket.destroy();
  }
}

function socketFor({ host = '', port = 0 }: mysql.ConnectionOptions): Socket {
  return connect({ host, port, keepAlive: true, noDelay: true });
}

/** Whether the server responds to a new connection, be it by a refusal. */
async function responds(login: mysql.ConnectionOptions): Promise<boolean> {
  const socket = socketFor(login);
  try {
    const connection = await mysql.createConnection({ ...login, stream: socket });
    void connection.end().catch(() => undefined);
    return true;
  } catch (error) {
    socket.destroy();
    return (error as ServerError).sqlState !== undefined;
  }
}

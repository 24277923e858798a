import { randomBytes } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, mkdir, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import type { DuckDBConnection, DuckDBDataChunk, DuckDBType, DuckDBValue, Json } from '@duckdb/node-api';
import { CdsyncError, interrupted, reworded } from '../core/errors.js';
import { ownQueryError } from '../sdk/duckdb/errors.js';
import { keepInterrupting } from '../sdk/duckdb/interrupt.js';
import { type DuckDBInstance, JsonDuckDBValueConverter, openInstance } from '../sdk/duckdb/node-api.js';
import { rowsInTurn, StreamedResult } from '../sdk/duckdb/streamed-result.js';
import { Session } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { planMemory } from '../storage/memory-plan.js';
import { lastStatement, notAllowed } from './confined-sql.js';
import { boundedCalls, MemoryWatch, tooManyRepeats } from './memory-watch.js';
import { assertOwnDefinitions, assertOwnTables, publishedBusy } from './store-integrity.js';

/** The rows of a query, with the names and types of their columns. */
export interface PublishedRows {
  readonly names: readonly string[];
  readonly types: readonly DuckDBType[];
  /** Whether the rows are those of a {@link Shaping}. */
  readonly isShaped?: boolean;
  /** Some rows at a time, see {@link rowsInTurn}. Ends without an error only after the last. @throws {CdsyncError} `sql_failed`, `interrupted` */
  chunks(): AsyncGenerator<Iterable<DuckDBValue[]>>;
}

/** What to select from the rows of a query, whose columns are called c0, c1 and so on, and the most rows of them. */
type Shaping = (types: readonly DuckDBType[]) => { readonly columns: string; readonly maxRows: number };

/** A published snapshot, open for reading. */
export interface Published {
  /** The file that the link pointed to when it was opened. */
  readonly path: string;
  /**
   * @param shaping lets DuckDB cut the rows of a query before they are here, unless several statements, or one that no SELECT can read
   * from, make them. `names` and `types` remain those of the query.
   * @throws {CdsyncError} `sql_not_allowed` if the SQL reaches beyond the published tables; `sql_failed`
   */
  rows(sql: string, shaping?: Shaping): Promise<PublishedRows>;
  /** All rows at once, with values that JSON can hold. @throws as {@link rows} */
  jsonRows(sql: string): Promise<Record<string, Json>[]>;
  /** Ends the query that is under way with `interrupted`, and every later one. */
  interrupt(): void;
  /** Whether a statement that took too much memory is still under way: DuckDB does not stop within one call of a function. */
  isStuck(): boolean;
  close(): void;
}

interface PublishedOptions {
  readonly memoryMb: number;
  /** The limit of the whole process; `memoryMb` if it is left out. */
  readonly processMb?: number;
  readonly threads: number;
  /**
   * Whether SQL may also read and write other files, attach databases, load extensions and change settings. The published
   * file is read-only in any case. Default: false.
   */
  readonly allowFiles?: boolean;
  /** Whether errors of a query may quote stored values. Default: false. */
  readonly showsValues?: boolean;
}

/** No file but the published one, no network, no extension, and SQL cannot change that. */
const confined: Readonly<Record<string, string>> = {
  enable_external_access: 'false',
  allow_community_extensions: 'false',
  allow_persistent_secrets: 'false',
  lock_configuration: 'true',
};

/**
 * Where DuckDB may put what does not fit in memory: several queries may read one file at once, so each has its own folder. Empty,
 * which means nowhere, for a user who may not write in the job's private folder.
 */
async function spillFolder({ queries }: JobLayout): Promise<string> {
  try {
    await mkdir(queries, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await access(queries, constants.W_OK | constants.X_OK);
    return join(queries, randomBytes(4).toString('hex'));
  } catch {
    return '';
  }
}

/**
 * @throws {CdsyncError} `not_published`; `storage_permission`; `storage_link` if the link leads out of the job's folder; `published_busy` if
 * someone has that version open for writing; `storage_altered`
 */
export async function openPublished(layout: JobLayout, options: PublishedOptions): Promise<Published> {
  const path = await publishedPath(layout);
  const instance = await openReadOnly(path, layout, options);
  const connection = await instance.connect();
  try {
    await assertIntact(connection, path, options.allowFiles === true);
    for (const macro of boundedCalls) await connection.run(macro);
  } catch (error) {
    connection.closeSync();
    instance.closeSync();
    throw error;
  }
  return new PublishedFile(path, instance, connection, options);
}

async function openReadOnly(
  path: string,
  layout: JobLayout,
  { memoryMb, threads, allowFiles = false }: PublishedOptions,
): Promise<DuckDBInstance> {
  try {
    return await openInstance(path, {
      access_mode: 'READ_ONLY',
      memory_limit: `${planMemory({ memoryMb, threads }).duckdb.other.memoryMb}MB`,
      threads: String(threads),
      temp_directory: await spillFolder(layout),
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
      ...(allowFiles ? {} : confined),
    });
  } catch (error) {
    throw publishedBusy(path, error);
  }
}

class PublishedFile implements Published {
  readonly path: string;
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;
  readonly #options: PublishedOptions;
  readonly #watch: MemoryWatch;
  readonly #isConfined: boolean;
  /** Whether the definitions of views and macros were compared too. */
  #isIntact: boolean;
  #stopInterrupting: (() => void) | undefined;

  constructor(path: string, instance: DuckDBInstance, connection: DuckDBConnection, options: PublishedOptions) {
    this.path = path;
    this.#instance = instance;
    this.#connection = connection;
    this.#options = options;
    this.#watch = new MemoryWatch(options.processMb ?? options.memoryMb);
    this.#isConfined = options.allowFiles !== true;
    this.#isIntact = !this.#isConfined;
  }

  async rows(sql: string, shaping?: Shaping): Promise<PublishedRows> {
    const shape = shaping && (await this.#watch.during(() => this.#shaped(sql, shaping)));
    const result = await this.#watch.during(() => this.#query(shape?.sql ?? sql, sql));
    return {
      names: shape?.names ?? result.names,
      types: shape?.types ?? result.types,
      isShaped: shape !== undefined,
      chunks: () => rowsInTurn(this.#chunks(result, sql)),
    };
  }

  async jsonRows(sql: string): Promise<Record<string, Json>[]> {
    const result = await this.#query(sql);
    const { names } = result;
    const rows: Record<string, Json>[] = [];
    for await (const chunk of this.#chunks(result, sql))
      for (const row of chunk.convertRows(JsonDuckDBValueConverter))
        rows.push(Object.fromEntries(names.map((name, column) => [name, row[column] ?? null])));
    return rows;
  }

  interrupt(): void {
    this.#stopInterrupting ??= keepInterrupting(this.#connection);
  }

  isStuck(): boolean {
    return this.#watch.isStuck;
  }

  close(): void {
    // To close waits for the statement under way.
    if (this.#watch.isStuck) {
      this.interrupt();
      void this.#watch.settled.then(() => this.#closeNow());
    } else this.#closeNow();
  }

  #closeNow(): void {
    this.#stopInterrupting?.();
    this.#connection.closeSync();
    this.#instance.closeSync();
  }

  async #query(sql: string, ofCaller = sql): Promise<StreamedResult> {
    const connection = this.#connection;
    try {
      return await StreamedResult.begin(connection, sql, await lastStatement(connection, sql, this.#isConfined));
    } catch (thrown) {
      const error = this.#asError(thrown, ofCaller);
      // A view or macro of an altered file may be refused, and not the query.
      if (!this.#isIntact && error.code === 'sql_not_allowed')
        this.#isIntact = await assertIntact(connection, this.path, true);
      throw error;
    }
  }

  /** @returns undefined if DuckDB cannot cut the rows of this query */
  async #shaped(
    sql: string,
    shaping: Shaping,
  ): Promise<{ names: string[]; types: DuckDBType[]; sql: string } | undefined> {
    const connection = this.#connection;
    try {
      if ((await connection.extractStatements(sql)).count !== 1) return undefined;
      const statement = await lastStatement(connection, sql, this.#isConfined);
      const indexes = Array.from({ length: statement.columnCount }, (_, index) => index);
      const types = indexes.map((index) => statement.columnType(index));
      const { columns, maxRows } = shaping(types);
      const named = indexes.map((index) => `c${index}`).join(', ');
      const query = `SELECT ${columns} FROM (${sql.replace(/[\s;]+$/, '')}\n) AS _cdsync_rows(${named}) LIMIT ${maxRows}`;
      // Not what ends in a comment after a semicolon, and no PIVOT, which DuckDB makes two statements of.
      (await connection.prepare(query)).destroySync();
      return { names: numberedNames(indexes.map((index) => statement.columnName(index))), types, sql: query };
    } catch {
      // The query itself reports its error.
      return undefined;
    }
  }

  async *#chunks(result: StreamedResult, sql: string): AsyncGenerator<DuckDBDataChunk> {
    try {
      const all = result.chunks();
      for (;;) {
        const { value: chunk, done } = await this.#watch.during(() => all.next());
        if (done) return;
        // DuckDB may be done, and nothing left to interrupt, while many rows wait to be taken.
        if (this.#stopInterrupting !== undefined) throw interrupted();
        yield chunk;
      }
    } catch (error) {
      throw this.#asError(error, sql);
    }
  }

  #asError(error: unknown, sql: string): CdsyncError {
    if (this.#stopInterrupting !== undefined) return interrupted(error);
    if (error instanceof CdsyncError) return error;
    const reason = tooManyRepeats(error) ?? (this.#isConfined ? notAllowed(error) : undefined);
    return reason ?? lackingMemory(ownQueryError(error, sql, this.#options.showsValues === true));
  }
}

/** @param comparesDefinitions not only their names; needed if one could read files. @throws {CdsyncError} `storage_altered` */
async function assertIntact(connection: DuckDBConnection, path: string, comparesDefinitions: boolean): Promise<true> {
  const session = new Session(connection);
  const [named] = await session.rows('SELECT system.main.current_database() AS name');
  const store = { session, path, database: String(named?.name) };
  const content = await assertOwnTables(store);
  if (comparesDefinitions) await assertOwnDefinitions(store, content, { isWritable: false });
  return true;
}

/** Names without duplicates: DuckDB's client numbers the others so too. */
function numberedNames(names: readonly string[]): string[] {
  return names.map((name, at) => {
    const before = names.slice(0, at).filter((other) => other === name).length;
    return before === 0 ? name : `${name}:${before}`;
  });
}

/** The file that the link points to, if this user may read it; undefined if there is none. */
async function readablePath(link: string): Promise<string | undefined> {
  try {
    const path = await realpath(link);
    await access(path, constants.R_OK);
    return path;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') return undefined;
    throw new CdsyncError(`no permission to read ${link}`, {
      code: 'storage_permission',
      hint: 'run as the user who owns it; or let others read it with `publish.mode`, such as "0640", and run the job',
      cause: error,
    });
  }
}

async function publishedPath(layout: JobLayout): Promise<string> {
  const path = await readablePath(layout.link);
  if (path === undefined) {
    const has = existsSync(layout.store) ? 'is not published at present' : 'has published nothing yet';
    throw new CdsyncError(`job "${layout.job}" ${has}: there is no ${layout.link}`, {
      code: 'not_published',
      hint: 'a run publishes it: cdsync run',
    });
  }
  if (path.startsWith((await realpath(layout.folder)) + sep)) return path;
  throw new CdsyncError(`${layout.link} leads out of the folder of job "${layout.job}"`, {
    code: 'storage_link',
    hint: 'find out who put the link there, and remove it; the next run writes it again',
  });
}

/** Adds to a want of memory what helps a query: LIMIT does not, if texts are large. */
function lackingMemory(error: CdsyncError): CdsyncError {
  if (error.code !== 'memory_exceeded') return error;
  const hint =
    'DuckDB reads up to 2,048 rows at a time, also with LIMIT: leave out columns of large texts (SELECT * EXCLUDE (column)), ' +
    'ask for a few rows by their place (WHERE rowid BETWEEN 0 AND 9), or raise `resources.memory_mb`';
  return reworded(error, error.message, { hint, cause: error.cause });
}

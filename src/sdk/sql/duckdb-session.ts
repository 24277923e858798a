import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { CdsyncError } from '../../core/errors.js';
import { filePattern, quoteIdentifier, sqlText } from '../../core/sql.js';
import { keepInterrupting } from '../duckdb/interrupt.js';
import { notATable } from '../errors.js';
import type { LoadData, TableColumn } from '../load.js';
import { columnsIn, type FoundColumns, type SqlRow, type SqlSession } from './dialect.js';

/** An instance of DuckDB, and its only connection. */
export interface ConnectedDuckdb {
  readonly instance: DuckDBInstance;
  readonly connection: DuckDBConnection;
}

/**
 * With a commit, DuckDB merges small row groups of a table, and has several blocks of each column in memory: 2 GB for 2,000 columns of 550
 * rows. A table of more columns keeps its row groups until its next reload.
 */
const columnsOfMerges = 500;

/**
 * Opens a database of DuckDB and prepares its connection. If that fails, the instance is closed.
 * @param database `isShared`: all of the process that open this path share one instance
 */
export async function connectDuckdb(
  { path, settings, isShared = false }: { path: string; settings?: Record<string, string>; isShared?: boolean },
  prepare: (connection: DuckDBConnection) => Promise<void> = async () => {},
): Promise<ConnectedDuckdb> {
  // Loaded late: reading a configuration needs no DuckDB.
  const { openInstance } = await import('../duckdb/node-api.js');
  const instance = await openInstance(path, settings, isShared);
  try {
    const connection = await instance.connect();
    await connection.run("SET TimeZone = 'UTC'");
    await prepare(connection);
    return { instance, connection };
  } catch (error) {
    instance.closeSync();
    throw error;
  }
}

/**
 * Refuses a file with a macro that DuckDB would call in place of a function or operator that is built in: it could read any file of this machine.
 * Call it on a connection to the file, before any other statement.
 * @throws {CdsyncError} `storage_altered`
 */
export async function assertNoFalseFunctions(connection: DuckDBConnection, path: string): Promise<void> {
  const names = (where: string) =>
    `SELECT system.main.lower(function_name) FROM system.main.duckdb_functions() WHERE ${where}`;
  const macros = await connection.runAndReadAll(`${names('NOT internal')} INTERSECT ${names('internal')}`);
  const [name] = macros.getRows()[0] ?? [];
  if (name !== undefined) throw alteredFile(path, `a macro "${name}", which takes the place of DuckDB's own function`);
}

/**
 * Refuses a file that only tables should be in. Nothing of it is run.
 * @throws {CdsyncError} `storage_altered`
 */
export async function assertNoDefinitions(connection: DuckDBConnection, path: string): Promise<void> {
  await connection.run(`ATTACH ${sqlText(path)} AS cdsync_inspected (READ_ONLY)`);
  try {
    const ofFile = "NOT internal AND database_name = 'cdsync_inspected'";
    const reader = await connection.runAndReadAll(
      `SELECT 'a view', view_name FROM duckdb_views() WHERE ${ofFile} UNION ALL SELECT 'a macro', function_name FROM duckdb_functions() WHERE ${ofFile}
       UNION ALL SELECT 'a default or a generated column', column_name FROM duckdb_columns() WHERE ${ofFile} AND column_default IS NOT NULL
       UNION ALL SELECT 'an index', index_name FROM duckdb_indexes() WHERE database_name = 'cdsync_inspected'`,
    );
    const [first] = reader.getRows();
    if (first !== undefined) throw alteredFile(path, `${first[0]} "${first[1]}", which no catalog has`);
  } finally {
    await connection.run('DETACH cdsync_inspected');
  }
}

/** The error for a file that another program has altered. */
export function alteredFile(path: string, what: string): CdsyncError {
  return new CdsyncError(`${path} was altered: it has ${what}`, {
    code: 'storage_altered',
    hint: 'nothing of it was run; find out who made it, and take it back',
  });
}

/** Lets no compression turn -0.0 into 0.0. */
export async function keepSignOfZero(connection: DuckDBConnection): Promise<void> {
  await connection.run("SET disabled_compression_methods = 'alp,alprd'");
}

/** A connection to an instance of DuckDB, which ends with it. */
export class DuckdbSession implements SqlSession {
  #instance: DuckDBInstance;
  #connection: DuckDBConnection;
  readonly #refusal: (cause: unknown) => Error;
  #isStopped = false;
  #isUnderWay = false;
  #endInterrupting: (() => void) | undefined;

  /** @param refusal the error for a failure of DuckDB, without DuckDB's message: that may quote rows */
  constructor({ instance, connection }: ConnectedDuckdb, refusal: (cause: unknown) => Error) {
    this.#instance = instance;
    this.#connection = connection;
    this.#refusal = refusal;
  }

  /**
   * Prepares for large rows: see {@link DestinationContext.rowsTogether}. A step of a statement passes rows on as it gets them, and one thread
   * alone has some in memory. A commit goes into the file at once: DuckDB would write it into its log first, and have all of its rows in
   * memory for that, outside of its limit.
   */
  async expectLargeRows(): Promise<void> {
    await this.run('SET enable_caching_operators = false');
    await this.run('SET threads = 1');
    await this.run("SET auto_checkpoint_skip_wal_threshold = 0; SET checkpoint_threshold = '0B'");
  }

  /** Values are numbers, texts, booleans or null. */
  async rows(sql: string): Promise<SqlRow[]> {
    if (this.#isStopped) throw this.#refusal(new Error('no statement begins after a stop'));
    return this.#read(sql);
  }

  async #read(sql: string): Promise<SqlRow[]> {
    this.#isUnderWay = true;
    try {
      return (await this.#connection.runAndReadAll(sql)).getRowObjectsJson() as SqlRow[];
    } catch (error) {
      throw this.#refusal(error);
    } finally {
      this.#isUnderWay = false;
      this.#endInterrupting?.();
    }
  }

  /** @returns the first value of the first row: of a change, the number of rows */
  async run(sql: string): Promise<number> {
    const [row] = await this.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  /**
   * The columns and the comment of a table; undefined if there is none. DuckDB takes names that differ only in case for one.
   * @param place a condition on `database_name` and `schema_name`
   * @throws {CdsyncError} if it is a view
   */
  async table(place: string, name: string): Promise<FoundColumns | undefined> {
    const isOfTable = (column: string) => `${place} AND lower(${column}) = lower(${sqlText(name)})`;
    const views = await this.rows(`SELECT view_name FROM duckdb_views() WHERE ${isOfTable('view_name')}`);
    if (views.length > 0) throw notATable(name, 'a view');
    const [row] = await this.rows(`SELECT comment, index_count FROM duckdb_tables() WHERE ${isOfTable('table_name')}`);
    if (row === undefined) return undefined;
    const comment = row.comment === null ? null : String(row.comment);
    return { columns: await this.columns(place, name), comment, isIndexed: Number(row.index_count) > 0 };
  }

  /** The columns of a table or a view; none if there is neither. @param place as that of {@link table} */
  async columns(place: string, name: string): Promise<TableColumn[]> {
    return columnsIn(
      await this.rows(
        `SELECT column_name AS name, data_type AS type FROM duckdb_columns()
         WHERE ${place} AND lower(table_name) = lower(${sqlText(name)}) ORDER BY column_index`,
      ),
    );
  }

  async fill(target: string, data: LoadData): Promise<number> {
    if (data.columns.length > columnsOfMerges) await this.run('SET GLOBAL max_vacuum_tasks = 0');
    let arrived = 0;
    for await (const { path } of data.files()) arrived += await this.insert(target, data, path);
    return arrived;
  }

  /** Inserts the rows of one Parquet file. */
  protected insert(target: string, { columns }: LoadData, path: string): Promise<number> {
    const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
    const source = `read_parquet(${sqlText(filePattern(path))})`;
    return this.run(`INSERT INTO ${target} (${names}) SELECT ${names} FROM ${source}`);
  }

  async begin(): Promise<void> {
    await this.run('BEGIN TRANSACTION');
  }

  async commit(): Promise<void> {
    await this.run('COMMIT');
  }

  async rollback(): Promise<void> {
    await this.#read('ROLLBACK');
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#isUnderWay) this.#endInterrupting ??= keepInterrupting(this.#connection);
  }

  /** Ends the instance, and continues with another. */
  protected async replace(connect: () => Promise<ConnectedDuckdb>): Promise<void> {
    this.#connection.closeSync();
    this.#instance.closeSync();
    ({ instance: this.#instance, connection: this.#connection } = await connect());
  }

  async close(): Promise<void> {
    this.#connection.closeSync();
    // Releases its file at once, unless this process has another instance of it.
    this.#instance.closeSync();
  }
}

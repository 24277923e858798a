import { randomBytes } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, mkdir, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import type {
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBPreparedStatement,
  DuckDBType,
  DuckDBValue,
  Json,
} from '@duckdb/node-api';
import { CdsyncError, interrupted, reworded } from '../core/errors.js';
import { ownQueryError, withoutLiterals } from '../sdk/duckdb/errors.js';
import { keepInterrupting } from '../sdk/duckdb/interrupt.js';
import { type DuckDBInstance, JsonDuckDBValueConverter, openInstance, StatementType } from '../sdk/duckdb/node-api.js';
import { rowsInTurn, StreamedResult } from '../sdk/duckdb/streamed-result.js';
import { Session } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { planMemory } from '../storage/memory-plan.js';
import { boundedCalls, MemoryWatch, tooManyRepeats } from './memory-watch.js';
import { assertOwnDefinitions, assertOwnTables } from './store-integrity.js';

/** The statements of a confined query: reading, and those that prepare it (variables, macros, temporary tables). */
const allowedStatements: ReadonlySet<StatementType> = new Set([
  StatementType.SELECT,
  StatementType.EXPLAIN,
  StatementType.SET,
  StatementType.CREATE,
]);

/** Why statements of this kind are refused; undefined if they are not. */
function refusedStatement(type: StatementType): string | undefined {
  return allowedStatements.has(type) ? undefined : `a statement of type ${StatementType[type] ?? 'UNKNOWN'}`;
}

/** Table functions that only calculate, or show the contents of the published file. */
const allowedTableFunctions =
  'range generate_series unnest repeat repeat_row summary json_each json_tree query_table histogram histogram_values duckdb_columns ' +
  'duckdb_constraints duckdb_databases duckdb_dependencies duckdb_functions duckdb_keywords duckdb_schemas duckdb_settings duckdb_tables ' +
  'duckdb_types duckdb_variables duckdb_views icu_calendar_names pg_timezone_names pragma_database_size pragma_show pragma_storage_info ' +
  'pragma_table_info pragma_version table_info storage_info show database_size version collations';

/** Of the functions whose result depends on more than their arguments, those that change nothing. */
const allowedVolatile =
  'uuid uuidv4 uuidv7 gen_random_uuid random error stats current_connection_id current_query current_query_id current_transaction_id';

function listed(names: string): string {
  return names
    .split(' ')
    .map((name) => `'${name}'`)
    .join(', ');
}

/** DuckDB's own functions that a confined query may not call: all that are not allowed, also those of its later versions. */
async function refusedFunctions(connection: DuckDBConnection): Promise<readonly string[]> {
  const reader = await connection.runAndReadAll(
    `SELECT DISTINCT lower(function_name) AS name FROM system.main.duckdb_functions() WHERE internal AND (
       (function_type NOT IN ('scalar', 'aggregate', 'macro') AND function_name NOT IN (${listed(allowedTableFunctions)}))
       OR (function_type = 'scalar' AND coalesce(stability, 'VOLATILE') = 'VOLATILE' AND function_name NOT IN (${listed(allowedVolatile)})))
     EXCEPT SELECT lower(function_name) FROM system.main.duckdb_functions()
       WHERE internal AND (function_name IN (${listed(`${allowedTableFunctions} ${allowedVolatile}`)})
         OR (function_type IN ('scalar', 'aggregate', 'macro') AND stability <> 'VOLATILE'))`,
  );
  return reader.getRows().map(([name]) => String(name));
}

/** The text that DuckDB ignores between a name and its bracket, and the quote that ends a name. */
const between = /["\s\p{Z}\p{C}]/u;

/**
 * The first of these functions that a query may call; undefined if it calls none. It reads the text as it is, strings and comments
 * included, so that no way of writing hides a call from it.
 */
function calledFunction(sql: string, names: readonly string[]): string | undefined {
  if (/u&\s*"/i.test(sql)) return 'a name with escapes, U&"…"';
  if (names.length === 0) return undefined;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_$])(?:${names.join('|')})(?![\\p{L}\\p{N}_$])`, 'giu');
  for (const match of sql.matchAll(pattern)) {
    let at = match.index + match[0].length;
    while (at < sql.length && between.test(sql[at] as string)) at += 1;
    if (/^(\(|\/\*|--)/.test(sql.slice(at, at + 2))) return `the function ${match[0].toLowerCase()}`;
  }
  return undefined;
}

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
  const { memoryMb, processMb = memoryMb, threads, allowFiles = false, showsValues = false } = options;
  let instance: DuckDBInstance;
  try {
    instance = await openInstance(path, {
      access_mode: 'READ_ONLY',
      memory_limit: `${planMemory({ memoryMb, threads }).duckdb.other.memoryMb}MB`,
      threads: String(threads),
      temp_directory: await spillFolder(layout),
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
      ...(allowFiles ? {} : confined),
    });
  } catch (error) {
    throw new CdsyncError(`${path} cannot be opened: another process has it open for writing, or it is damaged`, {
      code: 'published_busy',
      hint: 'open it with -readonly; the next run publishes a new version beside it',
      cause: error,
    });
  }
  const connection = await instance.connect();
  try {
    await assertIntact(connection, path, allowFiles);
    for (const macro of boundedCalls) await connection.run(macro);
  } catch (error) {
    connection.closeSync();
    instance.closeSync();
    throw error;
  }
  let stopInterrupting: (() => void) | undefined;
  const watch = new MemoryWatch(processMb);
  const asError = (error: unknown, sql: string): CdsyncError => {
    if (stopInterrupting !== undefined) return interrupted(error);
    if (error instanceof CdsyncError) return error;
    const repeats = tooManyRepeats(error);
    if (repeats !== undefined) return repeats;
    return (allowFiles ? undefined : notAllowed(error)) ?? lackingMemory(ownQueryError(error, sql, showsValues));
  };
  let isIntact = allowFiles;
  async function query(sql: string, ofCaller = sql): Promise<StreamedResult> {
    try {
      return await StreamedResult.begin(connection, sql, await lastStatement(connection, sql, !allowFiles));
    } catch (thrown) {
      const error = asError(thrown, ofCaller);
      // A view or macro of an altered file may be refused, and not the query.
      if (!isIntact && error.code === 'sql_not_allowed') isIntact = await assertIntact(connection, path, true);
      throw error;
    }
  }
  async function shaped(
    sql: string,
    shaping: Shaping,
  ): Promise<{ names: string[]; types: DuckDBType[]; sql: string } | undefined> {
    try {
      if ((await connection.extractStatements(sql)).count !== 1) return undefined;
      const statement = await lastStatement(connection, sql, !allowFiles);
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
  async function* chunks(result: StreamedResult, sql: string): AsyncGenerator<DuckDBDataChunk> {
    try {
      const all = result.chunks();
      for (;;) {
        const { value: chunk, done } = await watch.during(() => all.next());
        if (done) return;
        // DuckDB may be done, and nothing left to interrupt, while many rows wait to be taken.
        if (stopInterrupting !== undefined) throw interrupted();
        yield chunk;
      }
    } catch (error) {
      throw asError(error, sql);
    }
  }
  return {
    path,
    rows: async (sql, shaping) => {
      const shape = shaping && (await watch.during(() => shaped(sql, shaping)));
      const result = await watch.during(() => query(shape?.sql ?? sql, sql));
      return {
        names: shape?.names ?? result.names,
        types: shape?.types ?? result.types,
        isShaped: shape !== undefined,
        chunks: () => rowsInTurn(chunks(result, sql)),
      };
    },
    jsonRows: async (sql) => {
      const result = await query(sql);
      const { names } = result;
      const rows: Record<string, Json>[] = [];
      for await (const chunk of chunks(result, sql))
        for (const row of chunk.convertRows(JsonDuckDBValueConverter))
          rows.push(Object.fromEntries(names.map((name, column) => [name, row[column] ?? null])));
      return rows;
    },
    interrupt: () => {
      stopInterrupting ??= keepInterrupting(connection);
    },
    isStuck: () => watch.isStuck,
    close: () => {
      // To close waits for the statement under way.
      const close = () => {
        stopInterrupting?.();
        connection.closeSync();
        instance.closeSync();
      };
      if (!watch.isStuck) return close();
      stopInterrupting ??= keepInterrupting(connection);
      void watch.settled.then(close);
    },
  };
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

/** Statements whose rows are the purpose of a query. */
const queries: ReadonlySet<StatementType> = new Set([StatementType.SELECT, StatementType.EXPLAIN]);

/**
 * Runs the statements of a query, but the last.
 * @param isConfined whether only statements of the allowed kinds may run
 * @returns the last
 * @throws {CdsyncError} `sql_not_allowed`; `sql_failed` if one before the last has rows, which no reader would see
 */
async function lastStatement(
  connection: DuckDBConnection,
  sql: string,
  isConfined: boolean,
): Promise<DuckDBPreparedStatement> {
  // Before anything is prepared: a table function may act as soon as it is bound.
  const called = isConfined ? calledFunction(sql, await refusedFunctions(connection)) : undefined;
  if (called !== undefined) throw notAllowedError(called);
  const statements = await connection.extractStatements(sql);
  let unseen: CdsyncError | undefined;
  for (let at = 0; ; at += 1) {
    const statement = await statements.prepare(at);
    const refused = isConfined ? refusedStatement(statement.statementType) : undefined;
    if (refused !== undefined) throw notAllowedError(refused);
    if (at === statements.count - 1) {
      if (unseen !== undefined) throw unseen;
      return statement;
    }
    if (queries.has(statement.statementType)) unseen ??= severalQueries(at + 1, statements.count);
    else if (unseen === undefined) await statement.run();
  }
}

function severalQueries(number: number, count: number): CdsyncError {
  return new CdsyncError(`statement ${number} of ${count} is a query too, and only the rows of the last are shown`, {
    code: 'sql_failed',
    kind: 'configuration',
    hint: 'run one query at a time; statements before it may prepare it: SET VARIABLE, CREATE TEMP TABLE, CREATE MACRO',
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

/** DuckDB's words for what its settings forbid. */
const refusals = /Permission Error|configuration has been locked|in-memory database in read-only|in read-only mode/;

function notAllowed(thrown: unknown): CdsyncError | undefined {
  if (thrown instanceof CdsyncError) return thrown;
  const said = thrown instanceof Error ? thrown.message : String(thrown);
  return refusals.test(said) ? notAllowedError(withoutLiterals(said.trim()), thrown) : undefined;
}

function notAllowedError(reason: string, cause?: unknown): CdsyncError {
  return new CdsyncError(`a query reads the published tables and nothing else; this one was refused: ${reason}`, {
    code: 'sql_not_allowed',
    hint: 'for SQL that you trust, --allow-files opens other files; the published tables stay read-only',
    cause,
    causeQuotesValues: true,
  });
}

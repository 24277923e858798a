import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api';
import type { SaltFingerprint } from '../columns/masked-value.js';
import { CdsyncError, interrupted } from '../core/errors.js';
import { sqlText } from '../core/sql.js';
import { databaseError } from '../sdk/duckdb/errors.js';
import { keepInterrupting } from '../sdk/duckdb/interrupt.js';
import {
  DuckDBDataChunk,
  type DuckDBInstance,
  LIST,
  listValue,
  openInstance,
  UBIGINT,
  VARCHAR,
} from '../sdk/duckdb/node-api.js';
import { wordsOf } from '../sdk/duckdb/private-parts.js';
import { StreamedResult } from '../sdk/duckdb/streamed-result.js';
import { type Compression, compressionSettings } from './compression.js';
import { type DuckdbLimits, type MemoryNeeds, type Phase, planMemory, type Resources } from './memory-plan.js';
import { registerSalt, useSaltInSql } from './salts.js';

export type Row = Record<string, DuckDBValue>;

/**
 * The format of the files that cdsync writes: DuckDB 1.2 and later read them. It is the oldest that has zstd for texts.
 */
const storageVersion = 'v1.2.0';

/** SQL that attaches a database file to write to it; creates it if it is missing. */
export function attachForWriting(path: string, name: string, blockBytes?: number): string {
  const blocks = blockBytes === undefined ? '' : `, BLOCK_SIZE ${blockBytes}`;
  return `ATTACH ${sqlText(path)} AS ${name} (STORAGE_VERSION '${storageVersion}'${blocks})`;
}

/** Rows in a chunk of DuckDB. */
const chunkRows = 2048;
const slicedRows = 128;

/** One connection to a {@link Database}: its statements run one after the other. */
export class Session {
  readonly #connection: DuckDBConnection;
  /** Of {@link until}. */
  #signal: AbortSignal | undefined;

  constructor(connection: DuckDBConnection) {
    this.#connection = connection;
  }

  /** @param texts the list of texts that `$1` is in the statement */
  async run(sql: string, texts?: readonly string[]): Promise<void> {
    try {
      if (texts === undefined) await this.#begun().run(sql);
      else await this.#begun().run(sql, [listValue([...texts])], [LIST(VARCHAR)]);
    } catch (error) {
      throw this.#error(error);
    }
  }

  async rows(sql: string): Promise<Row[]> {
    try {
      const reader = await this.#begun().runAndReadAll(sql);
      return reader.getRowObjects() as Row[];
    } catch (error) {
      throw this.#error(error);
    }
  }

  /** The same with values that JSON can hold: numbers that JavaScript cannot hold, and times, as text. */
  async jsonRows(sql: string): Promise<Row[]> {
    try {
      return (await this.#begun().runAndReadAll(sql)).getRowObjectsJson() as Row[];
    } catch (error) {
      throw this.#error(error);
    }
  }

  /** The rows of a query one by one, without the whole result in memory. */
  async *stream(sql: string): AsyncGenerator<Row> {
    let names: string[] | undefined;
    for await (const { chunk, result } of this.#streamed(sql)) {
      names ??= result.names;
      yield* chunk.getRowObjects(names) as Row[];
    }
  }

  /** The texts of a query's one column, some at a time: those of a chunk stay in memory until its end. */
  async *texts(sql: string): AsyncGenerator<readonly string[]> {
    for await (const chunk of this.chunks(sql)) {
      const { rowCount } = chunk;
      for (let from = 0; from < rowCount; from += slicedRows)
        yield chunk
          .getColumnVector(0)
          .slice(from, Math.min(slicedRows, rowCount - from))
          .toArray() as string[];
      // Frees the texts: megabytes that the garbage collector does not count.
      chunk.reset();
    }
  }

  /** DuckDB's chunks of a query's result, each of at most 2048 rows. */
  async *chunks(sql: string): AsyncGenerator<DuckDBDataChunk> {
    for await (const { chunk } of this.#streamed(sql)) yield chunk;
  }

  async *#streamed(sql: string): AsyncGenerator<{ chunk: DuckDBDataChunk; result: StreamedResult }> {
    try {
      const result = await StreamedResult.begin(this.#begun(), sql);
      for await (const chunk of result.chunks()) yield { chunk, result };
    } catch (error) {
      throw this.#error(error);
    }
  }

  /**
   * Appends rows of 64-bit numbers to a temporary table.
   * @param words two for each number, the lower one first; the columns of a row follow each other
   */
  async appendWords(table: string, words: Uint32Array, columns: number): Promise<void> {
    const appender = await this.#begun().createAppender(table, null, 'temp');
    try {
      const rows = words.length / (2 * columns);
      const types = Array.from({ length: columns }, () => UBIGINT);
      for (let from = 0; from < rows; from += chunkRows) {
        const chunk = DuckDBDataChunk.create(types, Math.min(chunkRows, rows - from));
        for (let column = 0; column < columns; column += 1) {
          const vector = chunk.getColumnVector(column);
          const target = wordsOf(vector);
          for (let row = 0; row < chunk.rowCount; row += 1) {
            const source = 2 * ((from + row) * columns + column);
            target[2 * row] = words[source] as number;
            target[2 * row + 1] = words[source + 1] as number;
          }
          vector.flush();
        }
        appender.appendDataChunk(chunk);
      }
    } catch (error) {
      throw this.#error(error);
    } finally {
      appender.closeSync();
    }
  }

  /** The columns of a query's rows, chunk by chunk: 64-bit numbers without NULL, two words each, the lower one first. */
  async *words(sql: string): AsyncGenerator<Uint32Array[]> {
    for await (const chunk of this.chunks(sql)) {
      const columns: Uint32Array[] = [];
      for (let column = 0; column < chunk.columnCount; column += 1)
        columns.push(wordsOf(chunk.getColumnVector(column)).subarray(0, 2 * chunk.rowCount));
      yield columns;
    }
  }

  /** The connection for the next statement; none may begin once the signal has aborted. */
  #begun(): DuckDBConnection {
    if (this.#signal?.aborted) throw interrupted();
    return this.#connection;
  }

  /** DuckDB's error for a stopped statement hides the reason. */
  #error(cause: unknown): CdsyncError {
    if (this.#signal?.aborted) return interrupted(cause);
    return cause instanceof CdsyncError ? cause : databaseError(cause);
  }

  /** Runs `work`. As soon as the signal aborts, the statement under way stops and none begins: they throw `interrupted`. */
  async until<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    let stopInterrupting: (() => void) | undefined;
    const stop = () => {
      stopInterrupting = keepInterrupting(this.#connection);
    };
    this.#signal = signal;
    signal.addEventListener('abort', stop);
    try {
      return await work();
    } finally {
      stopInterrupting?.();
      signal.removeEventListener('abort', stop);
      this.#signal = undefined;
    }
  }

  /** The result of a query that returns one number; 0 if it returns no row. */
  async number(sql: string): Promise<number> {
    const [row] = await this.rows(sql);
    return row === undefined ? 0 : Number(Object.values(row)[0] ?? 0);
  }

  /**
   * Commits all statements of `work`, or none. Rethrows the error that stopped it.
   * @param signal stops the work, but never the COMMIT: whether that counted would be unknown
   */
  async transaction<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    await this.run('BEGIN TRANSACTION');
    try {
      const result = await (signal === undefined ? work() : this.until(signal, work));
      if (signal?.aborted) throw interrupted();
      await this.run('COMMIT');
      return result;
    } catch (error) {
      // After a failed COMMIT there is no transaction, so ROLLBACK fails too; only the first error matters.
      await this.run('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  close(): void {
    this.#connection.closeSync();
  }
}

/** The process's one DuckDB instance, in memory; files are attached to it. */
export class Database {
  readonly #instance: DuckDBInstance;
  #resources: Resources;
  readonly #uses = new Set<{ readonly phase: Phase; readonly needs: MemoryNeeds }>([{ phase: 'other', needs: {} }]);
  readonly #salts = new Map<string, SaltFingerprint>();
  readonly #checked = new Set<string>();
  #widestColumns = 0;
  #cacheBytes = 0;
  #limits: DuckdbLimits;
  #applied: Promise<void> = Promise.resolve();

  private constructor(instance: DuckDBInstance, resources: Resources) {
    this.#instance = instance;
    this.#resources = resources;
    this.#limits = planMemory(resources).duckdb.other;
  }

  /** @param resources the resources of the process; DuckDB gets its part of it */
  static async open(resources: Resources): Promise<Database> {
    const { memoryMb, threads } = planMemory(resources).duckdb.other;
    const instance = await openInstance(':memory:', {
      memory_limit: `${memoryMb}MB`,
      threads: String(threads),
      // By default, DuckDB would spill into a folder in the working directory, and a crash would leave rows there.
      temp_directory: '',
      // Never fetch an extension from the network without the user's knowledge.
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
    });
    const database = new Database(instance, resources);
    const session = await database.connect();
    // RLE takes -0.0 and 0.0 in a row for a run of one value. As an option of the instance, DuckDB forgets this setting.
    await session.run("SET GLOBAL disabled_compression_methods = 'rle'").finally(() => session.close());
    return database;
  }

  /**
   * Whether this process has checked the views and defaults that the file at this path would run. Since then, only this process has
   * written to it.
   */
  wasChecked(path: string): boolean {
    return this.#checked.has(path);
  }

  noteChecked(path: string): void {
    this.#checked.add(path);
  }

  async connect(): Promise<Session> {
    return this.#sessionOf(await this.#instance.connect());
  }

  /** A session that hashes quickly because it holds the salts: for statements of cdsync alone, never for SQL of users. */
  async connectToConvert(): Promise<Session> {
    const connection = await this.#instance.connect();
    for (const salt of this.#salts.values()) await useSaltInSql(connection, salt);
    return this.#sessionOf(connection);
  }

  /** Makes every session able to hash with these salts, without a way to read them. */
  async defineSalts(salts: Iterable<SaltFingerprint>): Promise<void> {
    const connection = await this.#instance.connect();
    try {
      for (const salt of salts) {
        if (this.#salts.has(salt.fingerprint)) continue;
        await registerSalt(connection, salt);
        this.#salts.set(salt.fingerprint, salt);
      }
    } finally {
      connection.closeSync();
    }
  }

  /** Whether columns can be hashed with the salt of this fingerprint. */
  hasSalt(fingerprint: string): boolean {
    return this.#salts.has(fingerprint);
  }

  async #sessionOf(connection: DuckDBConnection): Promise<Session> {
    const session = new Session(connection);
    await session.run("SET TimeZone = 'UTC'");
    return session;
  }

  /**
   * Runs `work` within the limits of a phase. Limits belong to the whole instance: of phases that overlap, the smallest memory and
   * the fewest threads apply. A width stays, because its table may be written again.
   */
  async use<T>(phase: Phase, needs: MemoryNeeds, work: () => Promise<T>): Promise<T> {
    const use = { phase, needs };
    this.#widestColumns = Math.max(this.#widestColumns, needs.widestColumns ?? 0);
    this.#uses.add(use);
    try {
      await this.#applyLimits();
      return await work();
    } finally {
      this.#uses.delete(use);
      await this.#applyLimits();
    }
  }

  /** From now on, `resources` limit the instance. */
  async resize(resources: Resources): Promise<void> {
    this.#resources = resources;
    await this.#applyLimits();
  }

  /** Leaves that many bytes to the record caches. */
  async leave(cacheBytes: number): Promise<void> {
    this.#cacheBytes = cacheBytes;
    await this.#applyLimits();
  }

  /**
   * Frees the blocks of files that DuckDB keeps to read them once more: a tenth of a small `memory_mb`, beside the next step. Each
   * lower limit also gives the system what closed files and tables have left.
   */
  async freeReadBlocks(): Promise<void> {
    this.#applied = this.#applied.then(async () => {
      const session = await this.connect();
      try {
        const others = await session.number(
          "SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag NOT IN ('BASE_TABLE', 'EXTERNAL_FILE_CACHE')",
        );
        await session.run(`SET memory_limit = '${Math.ceil(others / 1_000_000) + 1}MB'`).catch(() => undefined);
        await session.run(`SET memory_limit = '${this.#limits.memoryMb}MB'`);
      } finally {
        session.close();
      }
    });
    return this.#applied;
  }

  #applyLimits(): Promise<void> {
    this.#applied = this.#applied.then(async () => {
      const before = this.#limits;
      const all = [...this.#uses].map(
        ({ phase, needs }) =>
          planMemory(this.#resources, { ...needs, cacheBytes: this.#cacheBytes, widestColumns: this.#widestColumns })
            .duckdb[phase],
      );
      const threads = Math.min(...all.map((limits) => limits.threads));
      const memoryMb = Math.min(...all.map((limits) => limits.memoryMb));
      this.#limits = { threads, memoryMb };
      if (threads !== before.threads) await this.#set(`threads = ${threads}`);
      if (memoryMb === before.memoryMb) return;
      const isSet = this.#set(`memory_limit = '${memoryMb}MB'`);
      // DuckDB rejects a lower limit while more is in use and cannot be freed. Then the limit stays as it was.
      await (memoryMb < before.memoryMb ? isSet.catch(() => undefined) : isSet);
    });
    return this.#applied;
  }

  async #set(setting: string): Promise<void> {
    const session = await this.connect();
    await session.run(`SET ${setting}`).finally(() => session.close());
  }

  /** How tables are compressed that are written from now on; see {@link Compression}. */
  async compress(compression: Compression): Promise<void> {
    const session = await this.connect();
    await session.run(compressionSettings(compression)).finally(() => session.close());
  }

  /**
   * Sets the folder for data that does not fit in memory; without one, statements that need it fail. DuckDB makes the folder when it
   * needs it, and removes it in the end.
   */
  async spillTo(folder: string): Promise<void> {
    const session = await this.connect();
    await session.run(`SET temp_directory = ${sqlText(folder)}`);
    session.close();
  }

  close(): void {
    this.#instance.closeSync();
  }
}

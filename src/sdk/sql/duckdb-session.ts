import type { DuckDBConnection } from '@duckdb/node-api';
import { filePattern } from '../../core/sql.js';
import type { LoadData } from '../load.js';
import type { SqlRow, SqlSession } from './dialect.js';
import { duckdbIdentifier, duckdbLiteral } from './duckdb-dialect.js';

/** A connection to DuckDB. Subclasses close what they opened it with. */
export class DuckdbSession implements SqlSession {
  readonly #connection: DuckDBConnection;
  readonly #refusal: (cause: unknown) => Error;

  /** @param refusal the error for a failure of DuckDB, without DuckDB's message: that may quote rows */
  constructor(connection: DuckDBConnection, refusal: (cause: unknown) => Error) {
    this.#connection = connection;
    this.#refusal = refusal;
  }

  /** Values are numbers, texts, booleans or null. */
  async rows(sql: string): Promise<SqlRow[]> {
    try {
      return (await this.#connection.runAndReadAll(sql)).getRowObjectsJson() as SqlRow[];
    } catch (error) {
      throw this.#refusal(error);
    }
  }

  /** @returns the first value of the first row: of a change, the number of rows */
  async run(sql: string): Promise<number> {
    const [row] = await this.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  async fill(target: string, data: LoadData): Promise<number> {
    let arrived = 0;
    for await (const { path } of data.files()) arrived += await this.insert(target, data, path);
    return arrived;
  }

  /** Inserts the rows of one Parquet file. */
  protected insert(target: string, { columns }: LoadData, path: string): Promise<number> {
    const names = columns.map(({ name }) => duckdbIdentifier(name)).join(', ');
    const source = `read_parquet(${duckdbLiteral(filePattern(path))})`;
    return this.run(`INSERT INTO ${target} (${names}) SELECT ${names} FROM ${source}`);
  }

  async begin(): Promise<void> {
    await this.run('BEGIN TRANSACTION');
  }

  async commit(): Promise<void> {
    await this.run('COMMIT');
  }

  async rollback(): Promise<void> {
    await this.run('ROLLBACK');
  }

  stop(): void {
    this.#connection.interrupt();
  }

  async close(): Promise<void> {
    this.#connection.closeSync();
  }
}

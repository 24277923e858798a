import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { duckdbRefused } from '../../src/sdk/index.js';

type Row = Record<string, unknown>;

/** The error for a failure of DuckDB, without DuckDB's message: that may quote rows. */
function refusal(cause: unknown): Error {
  const message = cause instanceof Error ? cause.message : String(cause);
  return duckdbRefused('DuckDB could not prepare the files', message, { cause });
}

/** A DuckDB for one delivery, in the delivery's own folder, that reads, joins and writes files. */
export class Workbench {
  readonly #connection: DuckDBConnection;
  readonly #instance: DuckDBInstance;
  readonly #file: string;

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection, file: string) {
    this.#instance = instance;
    this.#connection = connection;
    this.#file = file;
  }

  static async open(folder: string, memoryMb: number): Promise<Workbench> {
    const file = join(folder, 'workbench.duckdb');
    await rm(file, { force: true });
    const instance = await DuckDBInstance.create(file, {
      memory_limit: `${memoryMb}MB`,
      // Each thread uses its share of the memory.
      threads: '2',
      temp_directory: join(folder, 'spill'),
    });
    const connection = await instance.connect();
    await connection.run("SET TimeZone = 'UTC'");
    // These methods turn -0.0 into 0.0.
    await connection.run("SET disabled_compression_methods = 'alp,alprd'");
    return new Workbench(instance, connection, file);
  }

  async run(sql: string): Promise<void> {
    try {
      await this.#connection.run(sql);
    } catch (error) {
      throw refusal(error);
    }
  }

  /** Values are numbers, texts, booleans or null. */
  async rows(sql: string): Promise<Row[]> {
    try {
      return (await this.#connection.runAndReadAll(sql)).getRowObjectsJson() as Row[];
    } catch (error) {
      throw refusal(error);
    }
  }

  /** The first value of the first row. */
  async number(sql: string): Promise<number> {
    const [row] = await this.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  interrupt(): void {
    this.#connection.interrupt();
  }

  async close(): Promise<void> {
    this.#connection.closeSync();
    this.#instance.closeSync();
    await rm(this.#file, { force: true });
  }
}

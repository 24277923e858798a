import { chmod, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import {
  type DestinationContext,
  duckdbDialect,
  duckdbIdentifier,
  duckdbLiteral,
  type FoundColumns,
  makeFolders,
  SqlDestination,
  type TableDestination,
} from '../../src/sdk/index.js';
import type { duckdbOptions } from './options.js';
import { FileSession, openRefusal } from './session.js';

/** Tables of a DuckDB file, over one connection. */
class DuckdbDestination extends SqlDestination<FileSession> {
  readonly #schema: string;

  constructor(session: FileSession, schema: string) {
    super(duckdbDialect(schema), session);
    this.#schema = schema;
  }

  protected override async createPlace(): Promise<void> {
    await this.session.run(`CREATE SCHEMA IF NOT EXISTS ${duckdbIdentifier(this.#schema)}`);
  }

  protected override find(table: string): Promise<FoundColumns | undefined> {
    return this.session.table(
      `database_name = current_database() AND schema_name = ${duckdbLiteral(this.#schema)}`,
      table,
    );
  }
}

/** Opens the file. All destinations of a process that load the same file share one instance of DuckDB. */
export async function openDuckdb({
  options,
  isReadOnly = false,
}: DestinationContext<typeof duckdbOptions>): Promise<TableDestination> {
  const { path, schema, memoryMb } = options;
  try {
    const isNew = (await stat(path).catch(() => undefined)) === undefined;
    if (!isReadOnly) await makeFolders(dirname(path), 0o700);
    // A database in memory has no tables, as the file will have none.
    const isAbsent = isNew && isReadOnly;
    const limits = { memory_limit: `${memoryMb}MB` };
    const instance = isAbsent
      ? await DuckDBInstance.create(':memory:', limits)
      : await DuckDBInstance.fromCache(path, limits);
    try {
      // DuckDB creates files that the umask may let others read.
      if (isNew && !isAbsent) await chmod(path, 0o600);
      const connection = await instance.connect();
      await connection.run("SET TimeZone = 'UTC'");
      return new DuckdbDestination(new FileSession(instance, connection), schema);
    } catch (error) {
      instance.closeSync();
      throw error;
    }
  } catch (error) {
    throw openRefusal(error, path);
  }
}

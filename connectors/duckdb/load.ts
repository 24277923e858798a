import { chmod, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  assertNoFalseFunctions,
  CdsyncError,
  connectDuckdb,
  type DestinationContext,
  DuckdbSession,
  duckdbDialect,
  type FoundColumns,
  largeRowsDialect,
  makeFolders,
  memorySettings,
  quoteIdentifier,
  SqlDestination,
  sqlText,
  type TableDestination,
} from '../../src/sdk/index.js';
import { openRefusal, refusal } from './errors.js';
import type { duckdbOptions } from './options.js';

/** Tables of a DuckDB file, over one connection. */
class DuckdbDestination extends SqlDestination<DuckdbSession> {
  readonly #schema: string;

  constructor(session: DuckdbSession, schema: string, rowsTogether: number | undefined) {
    super(rowsTogether === undefined ? duckdbDialect(schema) : largeRowsDialect(schema, rowsTogether), session);
    this.#schema = schema;
  }

  protected override async createPlace(): Promise<void> {
    await this.session.run(`CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(this.#schema)}`);
  }

  protected override find(table: string): Promise<FoundColumns | undefined> {
    return this.session.table(`database_name = current_database() AND schema_name = ${sqlText(this.#schema)}`, table);
  }
}

/** Opens the file. All destinations of a process that load the same file share one instance of DuckDB. */
export async function openDuckdb(context: DestinationContext<typeof duckdbOptions>): Promise<TableDestination> {
  const { options, isReadOnly = false, rowsTogether } = context;
  const { path, schema } = options;
  try {
    const isNew = (await stat(path).catch(() => undefined)) === undefined;
    if (!isReadOnly) await makeFolders(dirname(path), 0o700);
    // A database in memory has no tables, as the file will have none.
    const isAbsent = isNew && isReadOnly;
    const database = isAbsent ? { path: ':memory:' } : { path, isShared: true };
    const connected = await connectDuckdb(database, async (opened) => {
      await assertNoFalseFunctions(opened, path);
      for (const [name, value] of Object.entries(memorySettings(context))) await opened.run(`SET ${name} = '${value}'`);
      // DuckDB creates files that the umask may let others read.
      if (isNew && !isAbsent) await chmod(path, 0o600);
    });
    const session = new DuckdbSession(connected, refusal);
    if (rowsTogether !== undefined) await session.expectLargeRows();
    return new DuckdbDestination(session, schema, rowsTogether);
  } catch (error) {
    throw error instanceof CdsyncError ? error : openRefusal(error, path);
  }
}

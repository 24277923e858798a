import { stat } from 'node:fs/promises';
import { asCdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { databaseError, isCorruption } from '../sdk/duckdb/errors.js';
import type { Database, Session } from './duckdb.js';
import { isWithin, type RowRange, rangesWithin, rowSpan } from './large-rows.js';

/** The size of the headers of a DuckDB file, which come before its first block. */
const headerBytes = 3 * 4096;

/** Tables of an attached database that may have rows, quoted and qualified. */
async function tablesWithRows(session: Session, name: string): Promise<string[]> {
  const tables = await session.rows(
    `SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ${sqlText(name)} AND coalesce(estimated_size, 1) > 0`,
  );
  return tables.map((table) =>
    [name, String(table.schema_name), String(table.table_name)].map(quoteIdentifier).join('.'),
  );
}

/** The blocks of an attached file. */
interface FileBlocks {
  /** Bytes in a block. */
  readonly blockBytes: number;
  /** How many hold something. */
  readonly used: number;
  /** How many blocks the file can hold. */
  readonly present: number;
  /** How many DuckDB counts. It cuts off free ones at the end of the file, and still counts them the next time. */
  readonly counted: number;
}

/** Counts the blocks of an attached file: as of its last checkpoint. */
export async function fileBlocks(session: Session, name: string): Promise<FileBlocks> {
  const [row] = await session.rows(
    `SELECT path, block_size, used_blocks, total_blocks FROM pragma_database_size() JOIN duckdb_databases() USING (database_name)
     WHERE database_name = ${sqlText(name)}`,
  );
  const blockBytes = Number(row?.block_size);
  const { size } = await stat(String(row?.path));
  const present = Math.floor((size - headerBytes) / blockBytes);
  return { blockBytes, used: Number(row?.used_blocks), present, counted: Number(row?.total_blocks) };
}

/** How many blocks an attached file has up to the last one in use. */
async function blocksToLastInUse(session: Session, name: string): Promise<number> {
  const ofMetadata = `SELECT max(block_id) FROM pragma_metadata_info(${sqlText(name)})`;
  let last = await session.number(ofMetadata);
  for (const table of await tablesWithRows(session, name)) {
    const ids = 'greatest(max(block_id), max(list_max(additional_block_ids)), 0)';
    last = Math.max(last, await session.number(`SELECT ${ids} FROM pragma_storage_info(${sqlText(table)})`));
  }
  return last + 1;
}

/** Whether a database file of DuckDB is damaged. A missing file, or one that another process has locked, is not damaged. */
export async function isDamaged(database: Database, path: string): Promise<boolean> {
  const session = await database.connect();
  try {
    await session.run(`ATTACH ${sqlText(path)} AS inspected (READ_ONLY)`);
    const { present, counted } = await fileBlocks(session, 'inspected');
    return present < counted && present < (await blocksToLastInUse(session, 'inspected'));
  } catch (error) {
    return isCorruption(error);
  } finally {
    await session.run('DETACH DATABASE IF EXISTS inspected').catch(() => undefined);
    session.close();
  }
}

/** The number of ranges. Halves would do, but DuckDB takes much memory that it does not count. */
const rangesAtOnce = 16;

/** Reads every value of a table, or of some rows: in several ranges, if DuckDB has no memory for large rows that it reads together. */
async function readRows(session: Session, table: string, range?: RowRange): Promise<void> {
  const where = range === undefined ? '' : ` WHERE ${isWithin(range)}`;
  try {
    // DuckDB can count values without reading them. Any value of each column takes half the time of a hash of all.
    await session.run(`SELECT any_value(COLUMNS(*)) FROM ${table}${where}`);
  } catch (error) {
    if (asCdsyncError(error).code !== 'memory_exceeded') throw error;
    const span = range ?? (await rowSpan(session, table));
    if (span === undefined || span.first >= span.last) throw error;
    const rows = Math.ceil((span.last - span.first + 1) / rangesAtOnce);
    for (const part of rangesWithin(span, rows)) await readRows(session, table, part);
  }
}

/**
 * Reads every value in an attached database; DuckDB compares each block with its checksum on the way.
 * @returns the tables that have a damaged block
 */
export async function damagedTables(session: Session, name: string): Promise<string[]> {
  const damaged: string[] = [];
  for (const table of await tablesWithRows(session, name)) {
    try {
      await readRows(session, table);
    } catch (error) {
      if (!isCorruption(error)) throw error;
      damaged.push(table);
    }
  }
  return damaged;
}

/** @throws {CdsyncError} `state_unreadable` if a block of a DuckDB file is damaged */
export async function readAllValues(database: Database, path: string): Promise<void> {
  await database.freeReadBlocks();
  const session = await database.connect();
  try {
    await session.run(`ATTACH ${sqlText(path)} AS read_through (READ_ONLY)`);
    const [table] = await damagedTables(session, 'read_through');
    if (table !== undefined) throw databaseError(new Error(`a block of ${table} has another checksum`));
  } finally {
    await session.run('DETACH DATABASE IF EXISTS read_through').catch(() => undefined);
    session.close();
  }
}

import { CdsyncError } from '../core/errors.js';
import type { Session } from '../storage/duckdb.js';
import { defineHistory } from './history-views.js';
import { defineFreshness } from './store-schema.js';
import { internalSchema, storeName } from './store-tables.js';
import type { StreamState } from './stream-state.js';

/*
 * A person who may write the storage folder, a bucket or a backup can put other things into a store. DuckDB would run them: a view in the
 * place of a table, a default, a generated column, a check, a macro. So nothing but plain tables, and the views and macros that cdsync
 * itself defines, may be there before anything is read from it.
 */

/** The tables of every store. */
const ownTables = [
  ...['store', 'streams', 'moments'].map((name) => `${internalSchema}.${name}`),
  ...['runs', 'streams', 'columns', 'rejects'].map((name) => `cdsync.${name}`),
];

/** SQL for the names of things that no store has. */
const foreign = [
  `SELECT 'a default or generated column: ' || table_name || '.' || column_name AS what FROM duckdb_columns()
   WHERE database_name = '${storeName}' AND NOT internal AND column_default IS NOT NULL`,
  `SELECT 'a generated column of ' || table_name FROM duckdb_tables()
   WHERE database_name = '${storeName}' AND contains(upper(sql), 'GENERATED ALWAYS')`,
  `SELECT 'a check of ' || table_name FROM duckdb_constraints()
   WHERE database_name = '${storeName}' AND constraint_type IN ('CHECK', 'FOREIGN KEY')`,
  `SELECT 'an index: ' || index_name FROM duckdb_indexes() WHERE database_name = '${storeName}'`,
  `SELECT 'a sequence: ' || sequence_name FROM duckdb_sequences() WHERE database_name = '${storeName}'`,
  `SELECT 'a type: ' || type_name FROM duckdb_types() WHERE database_name = '${storeName}' AND NOT internal`,
].join(' UNION ALL ');

/** Kind, schema and name, and the definition of each view and macro. */
const definitions = `SELECT 'view ' || schema_name || '.' || view_name AS name, sql AS text FROM duckdb_views()
   WHERE database_name = '${storeName}' AND NOT internal
   UNION ALL SELECT 'macro ' || schema_name || '.' || function_name, parameters::VARCHAR || macro_definition FROM duckdb_functions()
   WHERE database_name = '${storeName}' AND NOT internal`;

/** DuckDB writes the text of a definition that it has loaded with other brackets and quotes than that of a new one. */
function bare(text: string): string {
  return text.replaceAll(/[\s()"]/g, '').replaceAll('CROSSJOIN', ',');
}

async function definitionsIn(session: Session): Promise<Map<string, string>> {
  return new Map((await session.rows(definitions)).map(({ name, text }) => [String(name), bare(String(text))]));
}

/** The definitions as cdsync makes them. They are rolled back. */
async function ownDefinitions(session: Session, streams: Iterable<StreamState>): Promise<Map<string, string>> {
  await session.run('BEGIN TRANSACTION');
  try {
    await defineFreshness(session);
    for (const state of streams) await defineHistory(session, state);
    return await definitionsIn(session);
  } finally {
    await session.run('ROLLBACK');
  }
}

function altered(path: string, what: string): CdsyncError {
  return new CdsyncError(`${path} was altered: it has ${what}, which cdsync does not write`, {
    code: 'storage_altered',
    hint: 'nothing of it was run; find out who can write this folder, then restore it from a backup, or move it away: the next run reads everything',
  });
}

/** The views and macros of a store with these streams. */
function ownNames(streams: readonly StreamState[]): ReadonlySet<string> {
  const ofStreams = streams.flatMap(({ stream }) => [
    `view main.${stream}__history`,
    `view main.${stream}__last_changes`,
    `macro main.${stream}_as_of`,
  ]);
  return new Set(['view cdsync.freshness', ...ofStreams]);
}

/**
 * Refuses a store with tables that would run something, or without its own tables. Call it before anything is read from the store.
 * @throws {CdsyncError} `storage_altered`
 */
export async function assertPlainTables(session: Session, path: string): Promise<void> {
  const [first] = await session.rows(`${foreign} LIMIT 1`);
  if (first !== undefined) throw altered(path, String(first.what));
  await assertTables(session, path, ownTables);
}

/**
 * Refuses a store with another table, view or macro than cdsync defines for its streams.
 * @throws {CdsyncError} `storage_altered`
 */
export async function assertOwnDefinitions(
  session: Session,
  path: string,
  streams: readonly StreamState[],
): Promise<void> {
  const tables = streams.flatMap(({ stream }) => [
    `main.${stream}`,
    `main.${stream}__changes`,
    `${internalSchema}.keys_${stream}`,
    `${internalSchema}.before_${stream}`,
  ]);
  await assertTables(session, path, tables);
  const present = await definitionsIn(session);
  const names = ownNames(streams);
  const unknown = [...present.keys()].find((name) => !names.has(name));
  if (unknown !== undefined) throw altered(path, `the ${unknown}`);
  const own = await ownDefinitions(session, streams).catch(() => undefined);
  if (own === undefined) throw altered(path, 'a table with other columns');
  const other = [...present].find(([name, text]) => own.get(name) !== text);
  if (other !== undefined) throw altered(path, `another ${other[0]}`);
}

async function assertTables(session: Session, path: string, tables: readonly string[]): Promise<void> {
  const rows = await session.rows(
    `SELECT schema_name || '.' || table_name AS name FROM duckdb_tables() WHERE database_name = '${storeName}'`,
  );
  const present = new Set(rows.map(({ name }) => String(name)));
  const missing = tables.find((name) => !present.has(name));
  if (missing !== undefined) throw altered(path, `something else in the place of table ${missing}`);
}

import { CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { Database, type Row, type Session } from '../storage/duckdb.js';
import { defineHistory } from './history-views.js';
import { defineFreshness } from './store-schema.js';
import { internalSchema, storeName } from './store-tables.js';
import { type StreamState, stateSchema } from './stream-state.js';

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

/*
 * In a connection to the file itself, its macros take the place of DuckDB's functions and operators. So these statements name functions
 * with their catalog, and have no operator that is a function: comparisons are none.
 */

/** Things that no store has: for each kind, a catalog function, the column that names one, and a condition. */
const foreign = [
  ['a default or generated column', 'duckdb_columns', 'column_name', 'NOT internal AND column_default IS NOT NULL'],
  ['a check or a foreign key', 'duckdb_constraints', 'table_name', "constraint_type IN ('CHECK', 'FOREIGN KEY')"],
  ['an index', 'duckdb_indexes', 'index_name', 'true'],
  ['a sequence', 'duckdb_sequences', 'sequence_name', 'true'],
  ['a type', 'duckdb_types', 'type_name', 'NOT internal'],
] as const;

/** DuckDB writes the text of a definition that it has loaded with other brackets and quotes than that of a new one. */
function bare(text: string): string {
  return text.replaceAll(/[\s()"]/g, '').replaceAll('CROSSJOIN', ',');
}

/** A store that is attached to a session, or a published copy of one. */
interface AttachedStore {
  readonly session: Session;
  readonly path: string;
  /** Its name there. */
  readonly database: string;
}

type Attached = Pick<AttachedStore, 'session' | 'database'>;

/** Rows of DuckDB's list of a database's objects. */
function listed({ session, database }: Attached, of: string, where = 'true'): Promise<Row[]> {
  return session.jsonRows(`SELECT * FROM system.main.${of}() WHERE database_name = ${sqlText(database)} AND ${where}`);
}

/** The name and the text of a view or macro. A macro may have several of them. */
type Definition = readonly [name: string, text: string];

/** The streams, views and macros of a store. */
interface StoreContent {
  readonly streams: readonly StreamState[];
  readonly definitions: readonly Definition[];
}

/** Every view and macro. DuckDB lists its own functions too, some thousands: it takes a tenth of a second. */
async function definitionsIn(store: Attached): Promise<Definition[]> {
  const views = await listed(store, 'duckdb_views', 'NOT internal');
  const macros = await listed(store, 'duckdb_functions', 'NOT internal');
  return [
    ...views.map((of): Definition => [`view ${of.schema_name}.${of.view_name}`, bare(String(of.sql))]),
    ...macros.map((of): Definition => {
      return [`macro ${of.schema_name}.${of.function_name}`, bare(`[${of.parameters}]${of.macro_definition}`)];
    }),
  ];
}

/** The definitions as cdsync makes them, over the tables of the attached store. They are there until the caller rolls them back. */
async function ownDefinitions(session: Session, streams: Iterable<StreamState>): Promise<Map<string, string>> {
  await defineFreshness(session);
  for (const state of streams) await defineHistory(session, state);
  return new Map(await definitionsIn({ session, database: storeName }));
}

/** The same over empty tables of the same columns, for a store that cannot be written. */
async function copiedDefinitions(store: AttachedStore, streams: Iterable<StreamState>): Promise<Map<string, string>> {
  const tables = await listed(store, 'duckdb_tables');
  const scratch = await Database.open({ memoryMb: 256, threads: 1 });
  const other = await scratch.connect();
  try {
    await other.run(
      `ATTACH ':memory:' AS ${storeName}; USE ${storeName}; CREATE SCHEMA cdsync; CREATE SCHEMA ${internalSchema}`,
    );
    for (const { sql } of tables) await other.run(String(sql));
    return await ownDefinitions(other, streams);
  } finally {
    other.close();
    scratch.close();
  }
}

function altered(path: string, what: string, cause?: unknown): CdsyncError {
  return new CdsyncError(`${path} was altered: it has ${what}, which cdsync does not write`, {
    code: 'storage_altered',
    hint: 'nothing of it was run; find out who can write this folder, then restore it from a backup, or move it away: the next run reads everything',
    cause,
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

/** @returns the tables, each as `schema.name` */
async function assertPlainTables(store: AttachedStore): Promise<ReadonlySet<string>> {
  for (const [what, of, name, where] of foreign) {
    const [first] = await listed(store, of, where);
    if (first !== undefined) throw altered(store.path, `${what}: ${first[name]}`);
  }
  const tables = await listed(store, 'duckdb_tables');
  const generated = tables.find(({ sql }) => /GENERATED ALWAYS/i.test(String(sql)));
  if (generated !== undefined) throw altered(store.path, `a generated column in ${generated.table_name}`);
  return new Set(tables.map((of) => `${of.schema_name}.${of.table_name}`));
}

/**
 * Refuses a store with tables that would run something when they are read, without its own tables, or with a view or a macro that is
 * called otherwise than cdsync's. Call it before anything is read from the store.
 * @throws {CdsyncError} `storage_altered`
 */
export async function assertOwnTables(store: AttachedStore): Promise<StoreContent> {
  const present = await assertPlainTables(store);
  assertTables(store, present, ownTables);
  const { session, path, database } = store;
  const about = `${quoteIdentifier(database)}.${internalSchema}.streams`;
  const rows = await session.rows(`SELECT state FROM ${about}`);
  const streams = rows.map(({ state }) => storedState(path, state));
  const tables = streams.flatMap(({ stream }) => [
    `main.${stream}`,
    `main.${stream}__changes`,
    `${internalSchema}.keys_${stream}`,
    `${internalSchema}.before_${stream}`,
  ]);
  assertTables(store, present, tables);
  const names = ownNames(streams);
  const definitions = await definitionsIn(store);
  const unknown = definitions.find(([name]) => !names.has(name));
  if (unknown !== undefined) throw altered(path, `the ${unknown[0]}`);
  return { streams, definitions };
}

/**
 * Refuses a store with another definition of a view or macro than cdsync's.
 * @param content all that it has
 * @throws {CdsyncError} `storage_altered`
 */
export async function assertOwnDefinitions(
  store: AttachedStore,
  { streams, definitions: present }: StoreContent,
  { isWritable }: { isWritable: boolean },
): Promise<void> {
  const { session, path } = store;
  if (isWritable) await session.run('BEGIN TRANSACTION');
  const definitions = await (isWritable ? ownDefinitions(session, streams) : copiedDefinitions(store, streams)).catch(
    () => undefined,
  );
  if (isWritable) await session.run('ROLLBACK');
  if (definitions === undefined) throw altered(path, 'a table with other columns');
  const other = present.find(([name, text]) => definitions.get(name) !== text);
  if (other !== undefined) throw altered(path, `another ${other[0]}`);
}

/** A stream's state in a store. @throws {CdsyncError} `storage_altered` */
export function storedState(path: string, text: unknown): StreamState {
  try {
    return stateSchema.parse(JSON.parse(String(text)));
  } catch (cause) {
    throw altered(path, 'the state of a stream', cause);
  }
}

function assertTables(store: AttachedStore, present: ReadonlySet<string>, tables: readonly string[]): void {
  const missing = tables.find((name) => !present.has(name));
  if (missing !== undefined) throw altered(store.path, `something else in the place of table ${missing}`);
}

/** The published file at `path` cannot be opened for reading. */
export function publishedBusy(path: string, cause: unknown): CdsyncError {
  return new CdsyncError(`${path} cannot be opened: another process has it open for writing, or it is damaged`, {
    code: 'published_busy',
    hint: 'open it with -readonly; the next run publishes a new version beside it',
    cause,
  });
}

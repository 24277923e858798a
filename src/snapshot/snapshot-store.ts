import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, readdir, realpath, rm, stat } from 'node:fs/promises';
import { z } from 'zod';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import type { StoredColumn } from '../rows/columns.js';
import { columnsSchema } from '../rows/stored-columns.js';
import { textForm } from '../rows/text-form.js';
import type { Database, Session } from '../store/duckdb.js';
import { tellsOfDamage } from '../store/duckdb-errors.js';
import { setMode, statsIfThere } from '../store/durable.js';
import type { JobLayout } from '../store/layout.js';

/** The name under which cdsync attaches a job's store. */
export const storeName = 'store';
/** Version of the tables in the store. It rises when an older cdsync could no longer work with them. */
const schemaVersion = 3;
/** Published stores of this version or a later one have all tables that a reader needs. */
const readableVersion = 2;

const fileSchema = z.object({
  /** Relative to `parquet/<stream>/`. */
  path: z.string(),
  /** Where the file was written, relative to the job's folder. Publishing moves it from there after the commit. */
  from: z.string(),
  rows: z.number(),
  bytes: z.number(),
  sha256: z.string(),
  /** When it was last written, in whole milliseconds since 1970; undefined if that was not noted. */
  changed_ms: z.number().optional(),
});

/** A Parquet file of a committed snapshot. */
export type CommittedFile = z.infer<typeof fileSchema>;

const coveredSchema = z.object({ from: z.string(), to: z.string() });

/** A span of time that needs no further reading; `to` is excluded. ISO 8601, UTC. */
export type Covered = z.infer<typeof coveredSchema>;

const stateSchema = z.object({
  stream: z.string(),
  /** Of the commit that last changed the stream. */
  run_id: z.string(),
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  key: z.array(z.string()),
  columns: columnsSchema,
  hash_version: z.string(),
  snapshot: z.array(fileSchema),
  changes: z.array(fileSchema),
  covered: z.array(coveredSchema).optional(),
  /** What defines the stream, as digests; undefined if an older version committed it. */
  definition: z.record(z.string(), z.string()).optional(),
  /** This commit removed values that the files of earlier commits still have. */
  rewritten: z.literal(true).optional(),
  /**
   * The first commit, whose inserts are stored only as rows: `<stream>__changes` is a view that shows them. Null once they are older
   * than `publish.history`. Undefined if an older version made the first commit: then `<stream>__changes` is a table with all changes.
   */
  first: z.object({ run_id: z.string(), synced_at: z.string() }).nullable().optional(),
});

/** What the store knows about a stream: enough to finish publishing it and to compare the next reading with it. */
export type StreamState = z.infer<typeof stateSchema>;

export interface StoreState {
  /** Identifies this store among all others; destinations remember it. */
  readonly id: string;
  /** Of the last commit; 0 before the first. */
  readonly sequence: number;
  /** Of the last commit that changed anything. */
  readonly runId: string | undefined;
  readonly streams: ReadonlyMap<string, StreamState>;
}

/** A table of the store, quoted and qualified. */
export function storeTable(name: string, schema = 'main'): string {
  return `${storeName}.${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
}

/** The table of a stream's changes: all of them or, if it has a first commit, those after it. */
export function changesTable({ stream, first }: Pick<StreamState, 'stream' | 'first'>): string {
  return first === undefined ? storeTable(`${stream}__changes`) : storeTable(`changes_${stream}`, '_cdsync');
}

/** The earlier table: the row of each key before its first change in the table of changes. */
export function earlierTable(stream: string): string {
  return storeTable(`before_${stream}`, '_cdsync');
}

/** The store's id and version: one row. */
const aboutTable = storeTable('store', '_cdsync');

/** When each snapshot of each stream was taken and committed. */
export const momentsTable = storeTable('moments', '_cdsync');

/** The table of a stream's (key, hash) rows. */
export function keysTable(stream: string): string {
  return storeTable(`keys_${stream}`, '_cdsync');
}

const statements = [
  `CREATE SCHEMA IF NOT EXISTS ${storeName}.cdsync`,
  `CREATE SCHEMA IF NOT EXISTS ${storeName}._cdsync`,
  `CREATE TABLE IF NOT EXISTS ${aboutTable} (id VARCHAR, version INTEGER)`,
  `CREATE TABLE IF NOT EXISTS ${storeTable('streams', '_cdsync')} (stream VARCHAR, state VARCHAR)`,
  `CREATE TABLE IF NOT EXISTS ${storeTable('runs', 'cdsync')} (run_id VARCHAR, sequence BIGINT, status VARCHAR,
     started_at TIMESTAMPTZ, finished_at TIMESTAMPTZ)`,
  `CREATE TABLE IF NOT EXISTS ${storeTable('streams', 'cdsync')} (run_id VARCHAR, stream VARCHAR, sequence BIGINT,
     changed BOOLEAN, rows BIGINT, inserted BIGINT, updated BIGINT, deleted BIGINT, unchanged BIGINT, duplicates BIGINT,
     rejected BIGINT)`,
  `CREATE TABLE IF NOT EXISTS ${storeTable('columns', 'cdsync')} (stream VARCHAR, path VARCHAR, column_name VARCHAR,
     type VARCHAR, since_run VARCHAR)`,
  `CREATE TABLE IF NOT EXISTS ${momentsTable} (stream VARCHAR, run_id VARCHAR, synced_at TIMESTAMPTZ,
     committed_at TIMESTAMPTZ)`,
  `CREATE TABLE IF NOT EXISTS ${storeTable('rejects', 'cdsync')} (run_id VARCHAR, stream VARCHAR, key VARCHAR,
     column_name VARCHAR, reason VARCHAR)`,
];

/** A job's private store, attached to the process's one DuckDB instance. No other process may open the file meanwhile. */
export class SnapshotStore {
  readonly session: Session;
  readonly #database: Database;
  #id = '';
  #isClosed = false;

  private constructor(database: Database, session: Session) {
    this.#database = database;
    this.session = session;
  }

  /** @throws {CdsyncError} `state_unreadable` if the file is no store, `storage_newer`, `disk_full` */
  static async open(database: Database, layout: JobLayout): Promise<SnapshotStore> {
    await letOwnerWrite(layout.store);
    const session = await database.connect();
    const attach = () => session.run(`ATTACH ${sqlText(layout.store)} AS ${storeName}`);
    try {
      await attach().catch(async (error) => {
        if (!tellsOfDamage(error) || !(await isStillborn(layout))) throw error;
        await rm(layout.store);
        await attach();
      });
    } catch (error) {
      session.close();
      throw openError(layout, error);
    }
    const store = new SnapshotStore(database, session);
    try {
      await store.#prepare(layout);
    } catch (error) {
      await store.close();
      throw error;
    }
    return store;
  }

  /**
   * Opens a job's published copy of its store read-only. A run may use the store itself meanwhile.
   * @returns undefined if nothing is published, or only a copy of another version
   * @throws {CdsyncError} `published_busy`
   */
  static async openPublished(database: Database, layout: JobLayout): Promise<SnapshotStore | undefined> {
    const path = await realpath(layout.link).catch(() => undefined);
    if (path === undefined) return undefined;
    const session = await database.connect();
    try {
      await session.run(`ATTACH ${sqlText(path)} AS ${storeName} (READ_ONLY)`);
    } catch (error) {
      session.close();
      throw new CdsyncError(`${path} cannot be opened: somebody has it open for writing, or it is damaged`, {
        code: 'published_busy',
        hint: 'open it with -readonly; the next run publishes a new version beside it',
        cause: error,
      });
    }
    const store = new SnapshotStore(database, session);
    const version = await store.#identify().catch(() => 0);
    if (version >= readableVersion && version <= schemaVersion) return store;
    await store.close();
    return undefined;
  }

  async #prepare(layout: JobLayout): Promise<void> {
    const version = await this.#identify().catch(async (error) => {
      if (await this.#hasTables()) throw error;
      await this.#create();
      return this.#identify();
    });
    if (version === schemaVersion) return;
    if (version < schemaVersion) return this.#migrate();
    throw new CdsyncError(`${layout.store} was written by a newer cdsync`, {
      code: 'storage_newer',
      hint: 'update cdsync, or point `storage` at another folder',
    });
  }

  /** Reads the store's id once: every reading of its state needs it. @returns the version of its tables */
  async #identify(): Promise<number> {
    const [about] = await this.session.rows(`SELECT id, version FROM ${aboutTable}`);
    this.#id = String(about?.id);
    return Number(about?.version ?? 0);
  }

  async #hasTables(): Promise<boolean> {
    const count = await this.session.number(
      `SELECT count(*) FROM duckdb_tables() WHERE database_name = '${storeName}' AND schema_name = '_cdsync' AND table_name = 'store'`,
    );
    return count > 0;
  }

  async #create(): Promise<void> {
    await this.session.transaction(async () => {
      for (const statement of statements) await this.session.run(statement);
      await this.session.run(`INSERT INTO ${aboutTable} VALUES ('${randomUUID()}', ${schemaVersion})`);
    });
  }

  /**
   * Migrates from version 2, whose streams keep their table of changes, or from version 1, which had no moments: of its past, only
   * the last commit is known.
   */
  async #migrate(): Promise<void> {
    await this.session.transaction(async () => {
      for (const statement of statements) await this.session.run(statement);
      await this.session.run(`UPDATE ${aboutTable} SET version = ${schemaVersion}`);
    });
  }

  async state(): Promise<StoreState> {
    const [last] = await this.session.rows(
      `SELECT run_id, sequence FROM ${storeTable('runs', 'cdsync')} WHERE sequence IS NOT NULL
       ORDER BY sequence DESC, started_at LIMIT 1`,
    );
    const rows = await this.session.rows(`SELECT state FROM ${storeTable('streams', '_cdsync')}`);
    const streams = rows.map(({ state }) => stateSchema.parse(JSON.parse(String(state))));
    return {
      id: this.#id,
      sequence: Number(last?.sequence ?? 0),
      runId: last === undefined ? undefined : String(last.run_id),
      streams: new Map(streams.map((state) => [state.stream, state])),
    };
  }

  async rememberStream(state: StreamState): Promise<void> {
    const table = storeTable('streams', '_cdsync');
    await this.session.run(`DELETE FROM ${table} WHERE stream = ${sqlText(state.stream)}`);
    await this.session.run(`INSERT INTO ${table} VALUES (${sqlText(state.stream)}, ${sqlText(JSON.stringify(state))})`);
  }

  /** Works in another session, beside the store's own. It sees what is committed. The store must stay open meanwhile. */
  async beside<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.#database.connect();
    try {
      return await work(session);
    } finally {
      session.close();
    }
  }

  /** See {@link Database.onOneThread}. */
  onOneThread<T>(work: () => Promise<T>): Promise<T> {
    return this.#database.onOneThread(work);
  }

  /** Writes everything into the one file and detaches it. Only then may the file be copied. A second call does nothing. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      // A statement that a signal stopped may have left the store as the default database, which cannot be detached.
      await this.session.run('USE memory');
      await this.session.run(`DETACH ${storeName}`);
    } finally {
      this.session.close();
    }
  }
}

/** The distinct texts of one column of a stream's snapshot, the most frequent first; empty if it has no such column. */
export async function distinctValues(
  { session }: SnapshotStore,
  stream: StreamState,
  place: StoredColumn['place'],
  field: string,
): Promise<string[]> {
  const column = stream.columns.find((candidate) => candidate.place === place && candidate.field === field);
  if (column === undefined) return [];
  const name = quoteIdentifier(column.name);
  const text = textForm(column.text)?.text(name) ?? `${name}::VARCHAR`;
  const rows = await session.rows(
    `SELECT ${text} AS value FROM ${storeTable(stream.stream)} WHERE ${name} IS NOT NULL
       GROUP BY 1 ORDER BY count(*) DESC, 1`,
  );
  return rows.map(({ value }) => String(value));
}

/** Streams the rows of a stream's table as JSON objects with some of its columns. */
export async function* storedRows(
  { session }: SnapshotStore,
  { stream, columns }: StreamState,
  fields: readonly string[],
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  const names = columns.filter(({ field }) => fields.includes(field)).map(({ name }) => quoteIdentifier(name));
  const rows = session.stream(
    `SELECT to_json(r)::VARCHAR AS row FROM (SELECT ${names.join(', ')} FROM ${storeTable(stream)}) AS r`,
  );
  for await (const { row } of rows) yield JSON.parse(String(row)) as Record<string, unknown>;
}

/** A store that was restored from its published copy has the permissions of that copy. */
async function letOwnerWrite(store: string): Promise<void> {
  const found = await statsIfThere(store);
  if (found !== undefined && found.uid === process.getuid?.() && (found.mode & 0o200) === 0)
    await setMode(store, 0o600);
}

/** More than the size of a new store, and less than that of a store with a commit. */
const newbornBytes = 1 << 20;

/** Whether a store that cannot be opened was cut short at its creation: it is tiny, and nothing of it was ever published. */
async function isStillborn(layout: JobLayout): Promise<boolean> {
  if ((await stat(layout.store)).size > newbornBytes) return false;
  const manifests = (await readdir(layout.parquet)).map((stream) => layout.manifest(stream));
  const found = await Promise.all([layout.link, ...manifests].map((path) => lstat(path).catch(() => undefined)));
  return found.every((published) => published === undefined);
}

function openError(layout: JobLayout, error: unknown): CdsyncError {
  if (tellsOfDamage(error)) {
    return new CdsyncError(`${layout.store} is damaged, or is not a cdsync store`, {
      code: 'state_unreadable',
      hint: existsSync(layout.link)
        ? `the published file is a copy of its last commit: cp ${layout.link} ${layout.store}; or restore the storage folder from a backup`
        : 'restore the storage folder, or point `storage` at another one',
      cause: error,
    });
  }
  return asCdsyncError(error);
}

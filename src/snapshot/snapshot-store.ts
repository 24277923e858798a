import { constants, existsSync } from 'node:fs';
import { copyFile, lstat, readdir, realpath, rm, stat } from 'node:fs/promises';
import type { StoredColumn } from '../columns/columns.js';
import { textFormatOf } from '../columns/text-format.js';
import { closeToOthers, renameDurably, setMode, statOrUndefined, syncFile, temporaryName } from '../core/durable.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { isCorruption } from '../sdk/duckdb/errors.js';
import { type Compression, intoFileAtOnce } from '../storage/compression.js';
import { attachForWriting, type Database, type Session } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { defineHistory } from './history-views.js';
import { assertOwnDefinitions, assertOwnTables, publishedBusy, storedState } from './store-integrity.js';
import { createStore, schemaVersion, upgradableVersion, upgradeStore, versionOf } from './store-schema.js';
import { storeName, storeTable, streamsTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';

export interface StoreState {
  /** Identifies this store among all others; destinations remember it. */
  readonly id: string;
  /** Of the last commit; 0 before the first. */
  readonly sequence: number;
  /** Of the last commit that changed anything. */
  readonly runId: string | undefined;
  readonly streams: ReadonlyMap<string, StreamState>;
}

/** Between the steps of a statement, DuckDB would join chunks of few rows: to up to 2048 large texts. */
const keepChunksSmall = 'SET enable_caching_operators = false';

/** The system gets the memory of large texts as soon as they are not needed: by default, DuckDB's allocator keeps 128 MB of each thread. */
const freeSoon =
  "SET GLOBAL allocator_flush_threshold = '8MB'; SET GLOBAL allocator_bulk_deallocation_flush_threshold = '16MB'";

/** A job's private store, attached to the process's one DuckDB instance. No other process may open the file at the same time. */
export class SnapshotStore {
  readonly session: Session;
  readonly path: string;
  /** Its name in the session. */
  readonly database = storeName;
  readonly #database: Database;
  #id = '';
  #isClosed = false;
  #hasLargeTexts = false;
  #compression: Compression = 'auto';

  private constructor(database: Database, session: Session, path: string) {
    this.#database = database;
    this.session = session;
    this.path = path;
  }

  /** @throws {CdsyncError} `state_unreadable` if the file is no store, `storage_newer`, `disk_full` */
  static async open(database: Database, layout: JobLayout): Promise<SnapshotStore> {
    await letOwnerWrite(layout.store);
    const session = await database.connect();
    const attach = () => session.run(attachForWriting(layout.store, storeName));
    try {
      await attach().catch(async (error) => {
        if (!isCorruption(error) || !(await isStillborn(layout))) throw error;
        await rm(layout.store);
        await attach();
      });
    } catch (error) {
      session.close();
      throw openError(layout, error);
    }
    const store = new SnapshotStore(database, session, layout.store);
    try {
      await closeToOthers(layout.store);
      await store.#prepare(layout);
    } catch (error) {
      await store.close();
      throw openError(layout, error);
    }
    return store;
  }

  /**
   * Opens a job's published copy of its store read-only. A run may use the store itself at the same time.
   * @returns undefined if nothing is published, or only a copy of another version
   * @throws {CdsyncError} `published_busy`, `storage_altered`
   */
  static async openPublished(database: Database, layout: JobLayout): Promise<SnapshotStore | undefined> {
    const path = await realpath(layout.link).catch(() => undefined);
    if (path === undefined) return undefined;
    const session = await database.connect();
    try {
      await session.run(`ATTACH ${sqlText(path)} AS ${storeName} (READ_ONLY)`);
    } catch (error) {
      session.close();
      throw publishedBusy(path, error);
    }
    const store = new SnapshotStore(database, session, path);
    try {
      const { version, id = '' } = (await versionOf(session).catch(() => undefined)) ?? {};
      if (version === schemaVersion) {
        store.#id = id;
        await assertOwnTables(store);
        return store;
      }
    } catch (error) {
      await store.close();
      throw error;
    }
    await store.close();
    return undefined;
  }

  async #prepare(layout: JobLayout): Promise<void> {
    const storeVersion = await versionOf(this.session);
    const isNew = !this.#database.wasChecked(layout.store);
    const isOurs = storeVersion?.version === schemaVersion || storeVersion?.version === upgradableVersion;
    const content = isNew && isOurs ? await assertOwnTables(this) : undefined;
    const { version, id } = storeVersion ?? (await this.session.transaction(() => createStore(this.session)));
    this.#id = id;
    if (version > schemaVersion) {
      throw new CdsyncError(`${layout.store} was written by a newer cdsync`, {
        code: 'storage_newer',
        hint: 'update cdsync, or point `storage` at another folder',
      });
    }
    if (version === upgradableVersion) {
      await this.session.transaction(async () => {
        await upgradeStore(this.session);
        for (const state of content?.streams ?? []) await defineHistory(this.session, state);
      });
    } else if (version < schemaVersion) {
      throw new CdsyncError(`${layout.store} was written by a version of cdsync that is too old`, {
        code: 'state_unreadable',
        hint: 'move the folder of the job away; the next run reads everything',
      });
    }
    // A store that was made or upgraded just now has other definitions than before.
    const asFound = version === schemaVersion ? content : undefined;
    if (isNew) await assertOwnDefinitions(this, asFound ?? (await assertOwnTables(this)), { isWritable: true });
    this.#database.noteChecked(layout.store);
    if (await holdsLargeTexts(this.session)) await this.expectLargeTexts();
  }

  async state(): Promise<StoreState> {
    const [last] = await this.session.rows(
      `SELECT run_id, sequence FROM ${storeTable('runs', 'cdsync')} WHERE sequence IS NOT NULL
       ORDER BY sequence DESC, finished_at LIMIT 1`,
    );
    const rows = await this.session.rows(`SELECT state FROM ${streamsTable}`);
    const streams = rows.map(({ state }) => storedState(this.path, state));
    return {
      id: this.#id,
      sequence: Number(last?.sequence ?? 0),
      runId: last === undefined ? undefined : String(last.run_id),
      streams: new Map(streams.map((state) => [state.stream, state])),
    };
  }

  /** Changes one row in one statement: also outside of a transaction, a failure or a kill leaves the old state or the new one. */
  async rememberStream(state: StreamState): Promise<void> {
    const [stream, text] = [sqlText(state.stream), sqlText(JSON.stringify(state))];
    const isKnown = (await this.session.number(`SELECT count(*) FROM ${streamsTable} WHERE stream = ${stream}`)) > 0;
    await this.session.run(
      isKnown
        ? `UPDATE ${streamsTable} SET state = ${text} WHERE stream = ${stream}`
        : `INSERT INTO ${streamsTable} VALUES (${stream}, ${text})`,
    );
  }

  /** Works in another session, beside the store's own. It sees the committed state. The store must stay open until it ends. */
  async beside<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.#database.connect();
    try {
      if (this.#hasLargeTexts) await session.run(keepChunksSmall);
      return await work(session);
    } finally {
      session.close();
    }
  }

  /** To be called before a large text is written. It counts until the store is closed, because closing writes too. */
  async expectLargeTexts(): Promise<void> {
    if (this.#hasLargeTexts) return;
    this.#hasLargeTexts = true;
    await this.session.run(`${keepChunksSmall}; ${freeSoon}`);
    await this.#compress('zstd');
  }

  /**
   * To be called before rows are written among large ones. At a checkpoint, DuckDB would merge small row groups of a table, and have all of
   * their rows in memory. It counts until the process ends.
   */
  async keepRowGroups(): Promise<void> {
    await this.session.run(`SET GLOBAL max_vacuum_tasks = 0; ${intoFileAtOnce}`);
  }

  /** Chooses the compression of writes until the store is closed. */
  async #compress(compression: Compression): Promise<void> {
    if (compression !== this.#compression) await this.#database.compress(compression);
    this.#compression = compression;
  }

  /** Writes the committed data into the file. @param streams all of the store */
  async checkpoint(streams: readonly Pick<StreamState, 'rows' | 'large_texts'>[]): Promise<void> {
    if (!this.#hasLargeTexts) await this.#compress(compressionFor(streams));
    await this.session.run(`CHECKPOINT ${storeName}`);
  }

  /**
   * Does work that commits more than once, all of it or none: in a copy of the file, which takes its place in the end. DuckDB keeps
   * blocks of each column that a transaction writes until it commits and writes them into the file, and counts only a part of them. No
   * other session may use the store.
   */
  async inCopy(layout: JobLayout, work: () => Promise<void>): Promise<void> {
    const next = temporaryName(layout.store);
    const { session } = this;
    await session.run('USE memory');
    await session.run(`DETACH ${storeName}`);
    try {
      await copyFile(layout.store, next, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
      await this.#database.freeReadBlocks();
      await closeToOthers(next);
      await session.run(attachForWriting(next, storeName));
      await work();
      await session.run(`CHECKPOINT ${storeName}`);
      await session.run(`DETACH ${storeName}`);
      await syncFile(next);
      await renameDurably(next, layout.store);
    } catch (error) {
      await session.run(`DETACH DATABASE IF EXISTS ${storeName}`);
      for (const path of [next, `${next}.wal`]) await rm(path, { force: true });
      throw error;
    } finally {
      await session.run(attachForWriting(layout.store, storeName));
    }
  }

  /** Runs `work` within the limits for writing files. */
  writingFiles<T>(work: () => Promise<T>): Promise<T> {
    return this.#database.use('writing files', {}, work);
  }

  /** Runs `work` on one thread if there are large texts: each thread has 2,048 of them in memory. */
  onFewThreads<T>(work: () => Promise<T>): Promise<T> {
    return this.#hasLargeTexts ? this.writingFiles(work) : work();
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
      await this.#compress('auto');
    }
  }
}

/** Tables of more rows, and their history, are worth a compression. */
const fewRows = 256;

function compressionFor(streams: readonly Pick<StreamState, 'rows' | 'large_texts'>[]): Compression {
  if (streams.some((stream) => stream.large_texts === true)) return 'zstd';
  return streams.every(({ rows }) => rows <= fewRows) ? 'uncompressed' : 'auto';
}

/** The compression for a copy of the attached store. */
export async function fittingCompression(session: Session, path: string): Promise<Compression> {
  const rows = await session.rows(`SELECT state FROM ${streamsTable}`);
  return compressionFor(rows.map(({ state }) => storedState(path, state)));
}

/** Whether a stream of the attached store has large texts. */
async function holdsLargeTexts(session: Session): Promise<boolean> {
  return (await session.number(`SELECT count(*) FROM ${streamsTable} WHERE contains(state, '"large_texts":true')`)) > 0;
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
  const text = textFormatOf(column.text)?.text(name) ?? `${name}::VARCHAR`;
  const rows = await session.rows(
    `SELECT ${text} AS value FROM ${storeTable(stream.stream)} WHERE ${name} IS NOT NULL
       GROUP BY 1 ORDER BY count(*) DESC, 1`,
  );
  return rows.map(({ value }) => String(value));
}

/** Streams the rows of a stream's table as JSON objects with some of its columns, and with `_age_ms` since a run had them first. */
export async function* storedRows(
  { session }: SnapshotStore,
  { stream, columns }: StreamState,
  fields: readonly string[],
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  const names = columns.filter(({ field }) => fields.includes(field)).map(({ name }) => quoteIdentifier(name));
  const rows = session.stream(
    `SELECT to_json(_cdsync_row)::VARCHAR AS row FROM (SELECT ${names.join(', ')}, epoch_ms(now()) - epoch_ms(_first_seen_at) AS _age_ms FROM ${storeTable(stream)}) AS _cdsync_row`,
  );
  for await (const { row } of rows) yield JSON.parse(String(row)) as Record<string, unknown>;
}

/** A store that was restored from its published copy has the permissions of that copy. */
async function letOwnerWrite(store: string): Promise<void> {
  const stats = await statOrUndefined(store);
  if (stats !== undefined && stats.uid === process.getuid?.() && (stats.mode & 0o200) === 0)
    await setMode(store, 0o600);
}

/** More than the size of a new store, and less than that of a store with a commit. */
const newbornBytes = 1 << 20;

/** Whether a store that cannot be opened was cut short at its creation: it is tiny, and nothing of it was ever published. */
async function isStillborn(layout: JobLayout): Promise<boolean> {
  if ((await stat(layout.store)).size > newbornBytes) return false;
  const manifests = (await readdir(layout.parquet)).map((stream) => layout.manifest(stream));
  const stats = await Promise.all([layout.link, ...manifests].map((path) => lstat(path).catch(() => undefined)));
  return stats.every((published) => published === undefined);
}

function openError(layout: JobLayout, error: unknown): CdsyncError {
  if (isCorruption(error)) {
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

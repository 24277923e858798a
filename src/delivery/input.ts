import { copyFile, link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ColumnSet, type StoredColumn } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { widen } from '../columns/widen.js';
import { sha256OfFile, syncFolder } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { fileText, fileTexts, internalName, quoteIdentifier, sqlText } from '../core/sql.js';
import type { Mode } from '../sdk/destination.js';
import type { Feed, FeedChanges } from '../snapshot/feed.js';
import type { Session } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';

/** The approximate number of rows in a piece. */
export const pieceRows = 122_880;

/** The column with the number of the commit that wrote a row. */
export const sequenceColumn = internalName('sequence');
const keyColumn = internalName('key');

/**
 * A part of an input. Its query returns `_op` (insert, update or delete), then `_run_id`, `_synced_at` and {@link sequenceColumn} of
 * the commit, then the columns of the stream's table.
 */
export interface LoadChunk {
  readonly query: string;
  readonly rows: number;
}

interface InputTask {
  readonly layout: JobLayout;
  readonly feed: Feed;
  readonly session: Session;
  /** A folder for this delivery alone; created, or emptied, when the input opens. */
  readonly folder: string;
}

/** The error for a file that the feed names, but that cannot be read or is another one. */
function unusable(feed: Feed, problem: string, cause?: unknown): CdsyncError {
  return new CdsyncError(`stream "${feed.stream}": ${problem}`, {
    code: 'snapshot_incomplete',
    stream: feed.stream,
    hint: 'cdsync verify lists missing and damaged files; cdsync run --full rewrites the stream',
    cause,
  });
}

/**
 * The rows of a delivery. It takes the published files by hard links, so that a slow load keeps them although later runs
 * remove them.
 */
export class DeliveryInput {
  readonly #task: InputTask;
  #linked = 0;
  #everything: Promise<LoadChunk[]> | undefined;

  private constructor(task: InputTask) {
    this.#task = task;
  }

  static async open(task: InputTask): Promise<DeliveryInput> {
    await rm(task.folder, { recursive: true, force: true });
    await mkdir(task.folder, { recursive: true, mode: 0o700 });
    return new DeliveryInput(task);
  }

  async #take(path: string, sha256: string | undefined): Promise<string> {
    const { layout, feed, folder } = this.#task;
    const source = join(layout.stream(feed.stream), path);
    this.#linked += 1;
    const target = join(folder, `${String(this.#linked).padStart(5, '0')}.parquet`);
    try {
      await layout.remoteFiles?.download(source);
      await link(source, target).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') throw error;
        return copyFile(source, target);
      });
    } catch (error) {
      throw error instanceof CdsyncError ? error : unusable(feed, `cannot read ${path}`, error);
    }
    // DuckDB reads an altered value of a Parquet file without an error.
    if (sha256 !== undefined && (await sha256OfFile(target)) !== sha256)
      throw unusable(feed, `${path} is damaged: its checksum is not that of the commit`);
    return target;
  }

  /** The changes after a snapshot: in mode `append` all; else the last one of each key, in `upsert` the last that is not a delete. */
  async changes(since: number, mode: Mode): Promise<LoadChunk[]> {
    const pending = this.#pending(since);
    const pieces: LoadChunk[] = [];
    for (const changes of pending) pieces.push(...(await this.#changes(changes)));
    // A run changes each key at most once, so a single run needs no folding.
    if (mode === 'append' || (pending.length < 2 && mode !== 'upsert')) return pieces;
    return this.#folded(pieces, mode !== 'upsert');
  }

  /** All rows of the snapshot, as inserts. */
  everything(): Promise<LoadChunk[]> {
    this.#everything ??= this.#takeEverything();
    return this.#everything;
  }

  /** The same rows by one query, for a destination that sorts them. */
  async snapshot(): Promise<string> {
    const { feed } = this.#task;
    const paths: string[] = [];
    for (const { path, sha256 } of feed.snapshot) paths.push(await this.#take(path, sha256));
    const stamp = stampSql("'insert'", feed);
    if (paths.length === 0) return `SELECT ${stamp}, ${nullColumns(feed)} WHERE false`;
    return `SELECT ${stamp}, ${widen(feed.columns, feed.columns, 'table')} FROM read_parquet(${fileTexts(paths)})`;
  }

  async #takeEverything(): Promise<LoadChunk[]> {
    const { feed } = this.#task;
    const stamp = stampSql("'insert'", feed);
    const columns = widen(feed.columns, feed.columns, 'table');
    const pieces: LoadChunk[] = [];
    let group: { path: string; rows: number }[] = [];
    const seal = () => {
      if (group.length === 0) return;
      const from = `read_parquet(${fileTexts(group.map(({ path }) => path))})`;
      pieces.push({ query: `SELECT ${stamp}, ${columns} FROM ${from}`, rows: sum(group) });
      group = [];
    };
    for (const file of feed.snapshot) {
      const path = await this.#take(file.path, file.sha256);
      if (file.rows > 2 * pieceRows) {
        seal();
        pieces.push(...ranges(path, file.rows, `SELECT ${stamp}, ${columns}`));
        continue;
      }
      if (sum(group) + file.rows > pieceRows) seal();
      group.push({ path, rows: file.rows });
    }
    seal();
    return pieces;
  }

  #pending(since: number): (FeedChanges & { columns: StoredColumn[] })[] {
    let following = this.#task.feed.columns;
    const filled = [...this.#task.feed.changes].reverse().map((changes) => {
      following = changes.columns ?? following;
      return { ...changes, columns: following };
    });
    return filled.reverse().filter(({ sequence }) => sequence > since);
  }

  async #changes(changes: FeedChanges & { columns: StoredColumn[] }): Promise<LoadChunk[]> {
    const columns = widen(changes.columns, this.#task.feed.columns, 'table');
    const select = `SELECT _op, _run_id, _synced_at, ${changes.sequence}::BIGINT AS ${sequenceColumn}, ${columns}`;
    const [only, ...others] = await Promise.all(
      changes.files.map((path, index) => this.#take(path, changes.sha256[index] ?? '')),
    );
    if (only === undefined) return [];
    if (others.length === 0) return ranges(only, changes.rows, select);
    return this.#pieces([only, ...others], select);
  }

  /** Divides files whose rows are not counted yet. */
  async #pieces(paths: readonly string[], select: string): Promise<LoadChunk[]> {
    const counts = await this.#task.session.rows(
      `SELECT file_name, num_rows FROM parquet_file_metadata(${fileTexts(paths)}) ORDER BY file_name`,
    );
    return counts.flatMap(({ file_name, num_rows }) => ranges(String(file_name), Number(num_rows), select));
  }

  /** Writes the last change of each key into new files; without `deletes`, the last one that is not a delete. */
  async #folded(pieces: readonly LoadChunk[], deletes: boolean): Promise<LoadChunk[]> {
    const { session, feed, folder } = this.#task;
    const key = rowKey(feed.key);
    const { list } = ColumnSet.restore(feed.columns);
    const stamped = ['_op', '_run_id', '_synced_at', sequenceColumn];
    const all = [...stamped.slice(1), ...list.map(({ name }) => quoteIdentifier(name))].join(', ');
    // Parquet has no integers of 128 bits: DuckDB would write doubles.
    const cast = (to: 'type' | 'fileType') =>
      list.map((column) => {
        const name = quoteIdentifier(column.name);
        return column.type === column.fileType ? name : `${name}::${column[to]} AS ${name}`;
      });
    const [written, select] = [cast('fileType'), cast('type')].map(
      (names) => `SELECT ${[...stamped, ...names].join(', ')}`,
    );
    const empty = `SELECT NULL::VARCHAR AS ${keyColumn}, ${stampSql("''", feed)}, ${nullColumns(feed)} WHERE false`;
    const changed = [empty, ...pieces.map(({ query }) => `SELECT ${key} AS ${keyColumn}, * FROM (${query})`)].join(
      ' UNION ALL BY NAME ',
    );
    // Without deletes, the last image of a key that is now deleted must be sent.
    const counted = deletes ? 'true' : "_op <> 'delete'";
    const [firstOp, lastSequence] = [internalName('first_op'), internalName('last_sequence')];
    const ends = `SELECT ${keyColumn}, arg_min(_op, ${sequenceColumn}) AS ${firstOp}, max(${sequenceColumn}) AS ${lastSequence}
      FROM changed WHERE ${counted} GROUP BY ${keyColumn}`;
    // A key that was new at first is new to a destination that has none of these changes; a key that it had, it still has.
    const op = `CASE WHEN _op = 'delete' THEN _op WHEN ${firstOp} = 'insert' THEN 'insert' ELSE 'update' END AS _op`;
    const last = `JOIN ends USING (${keyColumn}) WHERE ${counted} AND ${sequenceColumn} = ${lastSequence}`;
    const query = `${written} FROM (WITH changed AS (${changed}), ends AS (${ends}) SELECT ${op}, ${all} FROM changed ${last})`;
    const target = join(folder, 'folded');
    await mkdir(target, { mode: 0o700 });
    const options = `FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE ${pieceRows}, ROW_GROUPS_PER_FILE 1`;
    const [copied] = await session.rows(`COPY (${query}) TO ${sqlText(target)} (${options}, RETURN_FILES true)`);
    const files = ((copied?.Files as { items?: readonly unknown[] } | undefined)?.items ?? []).map(String);
    if (Number(copied?.Count ?? 0) === 0) return [];
    await syncFolder(target);
    return this.#pieces(files, select as string);
  }

  async close(): Promise<void> {
    await rm(this.#task.folder, { recursive: true, force: true });
  }
}

function sum(files: readonly { rows: number }[]): number {
  return files.reduce((total, { rows }) => total + rows, 0);
}

function stampSql(op: string, { run_id, synced_at, sequence }: Feed): string {
  const moment = `${sqlText(synced_at)}::TIMESTAMPTZ`;
  return `${op} AS _op, ${sqlText(run_id)} AS _run_id, ${moment} AS _synced_at, ${sequence}::BIGINT AS ${sequenceColumn}`;
}

function nullColumns({ columns }: Feed): string {
  return ColumnSet.restore(columns)
    .list.map(({ name, type }) => `NULL::${type} AS ${quoteIdentifier(name)}`)
    .join(', ');
}

/** Divides a file into pieces. */
function ranges(path: string, rows: number, select: string): LoadChunk[] {
  if (rows === 0) return [];
  if (rows <= 2 * pieceRows) return [{ query: `${select} FROM read_parquet(${fileText(path)})`, rows }];
  const pieces: LoadChunk[] = [];
  for (let from = 0; from < rows; from += pieceRows) {
    const to = Math.min(from + pieceRows, rows);
    const rowsOf = `read_parquet(${fileText(path)}, file_row_number = true)`;
    const query = `${select} FROM ${rowsOf} WHERE file_row_number >= ${from} AND file_row_number < ${to}`;
    pieces.push({ query, rows: to - from });
  }
  return pieces;
}

import { copyFile, link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { fileText, fileTexts, quoteIdentifier, sqlText } from '../core/sql.js';
import { ColumnSet, type StoredColumn } from '../rows/columns.js';
import { rowKey } from '../rows/row-hash.js';
import { widen } from '../rows/widen.js';
import type { Mode } from '../sdk/capabilities.js';
import type { Session } from '../store/duckdb.js';
import { syncFolder } from '../store/durable.js';
import type { Feed, FeedChanges } from '../store/feed.js';
import type { JobLayout } from '../store/layout.js';
import type { DeliveryPlan } from './delivery-plan.js';

/** The approximate number of rows in a piece. */
export const pieceRows = 122_880;

/**
 * A part of an input. Its query returns `_op` (insert, update or delete), then `_run_id`, `_synced_at` and `_sequence` of the
 * commit, then the columns of the stream's table.
 */
export interface Piece {
  readonly query: string;
  readonly rows: number;
}

export interface InputTask {
  readonly layout: JobLayout;
  readonly feed: Feed;
  readonly session: Session;
  /** A folder for this delivery alone; created, or emptied, when the input opens. */
  readonly folder: string;
  /** A query for the keys (`key`) that the destination refused earlier. The present rows of these keys come as well. */
  readonly retried: string | undefined;
}

/** The error for a file that the feed names but that cannot be read. */
function inputMissing(feed: Feed, path: string, cause: unknown): CdsyncError {
  return new CdsyncError(`cannot read a file of stream "${feed.stream}": ${path}`, {
    code: 'snapshot_incomplete',
    stream: feed.stream,
    hint: 'cdsync verify says what is missing; cdsync run --full rewrites the stream',
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
  #everything: Promise<Piece[]> | undefined;

  private constructor(task: InputTask) {
    this.#task = task;
  }

  static async open(task: InputTask): Promise<DeliveryInput> {
    await rm(task.folder, { recursive: true, force: true });
    await mkdir(task.folder, { recursive: true, mode: 0o700 });
    return new DeliveryInput(task);
  }

  async #take(path: string): Promise<string> {
    const { layout, feed, folder } = this.#task;
    const source = join(layout.stream(feed.stream), path);
    this.#linked += 1;
    const target = join(folder, `${String(this.#linked).padStart(5, '0')}.parquet`);
    try {
      await layout.elsewhere?.bring(source);
      await link(source, target).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') throw error;
        return copyFile(source, target);
      });
    } catch (error) {
      throw error instanceof CdsyncError ? error : inputMissing(feed, path, error);
    }
    return target;
  }

  /** The rows of a plan. Of changes, mode `append` gets every one, the other modes the last one of each key. */
  planned(plan: DeliveryPlan, mode: Mode): Promise<Piece[]> {
    if (plan.type === 'everything') return this.everything();
    if (plan.type !== 'changes') return Promise.resolve([]);
    return mode === 'append' ? this.allChanges(plan.since) : this.foldedChanges(plan.since, mode !== 'upsert');
  }

  /** All rows of the snapshot, as inserts. */
  everything(): Promise<Piece[]> {
    this.#everything ??= this.#takeEverything();
    return this.#everything;
  }

  async #takeEverything(): Promise<Piece[]> {
    const { feed } = this.#task;
    const stamp = stampSql("'insert'", feed);
    const columns = widen(feed.columns, feed.columns, 'table');
    const pieces: Piece[] = [];
    let group: { path: string; rows: number }[] = [];
    const seal = () => {
      if (group.length === 0) return;
      const from = `read_parquet(${fileTexts(group.map(({ path }) => path))})`;
      pieces.push({ query: `SELECT ${stamp}, ${columns} FROM ${from}`, rows: sum(group) });
      group = [];
    };
    for (const file of feed.snapshot) {
      const path = await this.#take(file.path);
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

  /** Every change after a sequence, in order. */
  async allChanges(since: number): Promise<Piece[]> {
    const pending = this.#pending(since);
    const pieces: Piece[] = [];
    for (const changes of pending) pieces.push(...(await this.#changes(changes)));
    return this.#task.retried === undefined ? pieces : this.#materialize(pieces, true, true);
  }

  /** The last change of each key after a sequence. Without `deletes`, keys that are now deleted are left out. */
  async foldedChanges(since: number, deletes: boolean): Promise<Piece[]> {
    const pending = this.#pending(since);
    const pieces: Piece[] = [];
    for (const changes of pending) pieces.push(...(await this.#changes(changes)));
    // A run changes each key at most once, so a single run needs no folding.
    if (pending.length < 2 && this.#task.retried === undefined && deletes) return pieces;
    return this.#materialize(pieces, false, deletes);
  }

  #pending(since: number): (FeedChanges & { columns: StoredColumn[] })[] {
    let following = this.#task.feed.columns;
    const filled = [...this.#task.feed.changes].reverse().map((changes) => {
      following = changes.columns ?? following;
      return { ...changes, columns: following };
    });
    return filled.reverse().filter(({ sequence }) => sequence > since);
  }

  async #changes(changes: FeedChanges & { columns: StoredColumn[] }): Promise<Piece[]> {
    const columns = widen(changes.columns, this.#task.feed.columns, 'table');
    const select = `SELECT _op, _run_id, _synced_at, ${changes.sequence}::BIGINT AS _sequence, ${columns}`;
    const [only, ...others] = await Promise.all(changes.files.map((path) => this.#take(path)));
    if (only === undefined) return [];
    if (others.length === 0) return ranges(only, changes.rows, select);
    return this.#pieces([only, ...others], select);
  }

  /** Divides files whose rows are not counted yet. */
  async #pieces(paths: readonly string[], select: string): Promise<Piece[]> {
    const counts = await this.#task.session.rows(
      `SELECT file_name, num_rows FROM parquet_file_metadata(${fileTexts(paths)}) ORDER BY file_name`,
    );
    return counts.flatMap(({ file_name, num_rows }) => ranges(String(file_name), Number(num_rows), select));
  }

  /** Writes the changes into new files: the last one of each key or, if `keepsAll`, every one, plus the rows to try again. */
  async #materialize(pieces: readonly Piece[], keepsAll: boolean, deletes: boolean): Promise<Piece[]> {
    const { session, feed, folder, retried } = this.#task;
    const key = rowKey(feed.key);
    const names = ColumnSet.restore(feed.columns).list.map(({ name }) => quoteIdentifier(name));
    const all = ['_op', '_run_id', '_synced_at', '_sequence', ...names].join(', ');
    const empty = `SELECT NULL::VARCHAR AS _key, ${stampSql("''", feed)}, ${nullColumns(feed)} WHERE false`;
    const changed = [empty, ...pieces.map(({ query }) => `SELECT ${key} AS _key, * FROM (${query})`)].join(
      ' UNION ALL BY NAME ',
    );
    const last = keepsAll
      ? ''
      : 'WHERE (_key, _sequence) IN (SELECT (_key, max(_sequence)) FROM changed GROUP BY _key)';
    const present = deletes ? '' : " AND _op <> 'delete'";
    const again = retried === undefined ? '' : ` UNION ALL BY NAME ${await this.#presentImages(retried, !keepsAll)}`;
    const select = `SELECT ${all}`;
    const query = `WITH changed AS (${changed}) SELECT ${all} FROM changed ${last}${present}${again}`;
    if (keepsAll) return this.#ordered(query, select);
    const target = join(folder, 'folded');
    await mkdir(target, { mode: 0o700 });
    const options = `FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE ${pieceRows}, ROW_GROUPS_PER_FILE 1`;
    const [written] = await session.rows(`COPY (${query}) TO ${sqlText(target)} (${options}, RETURN_FILES true)`);
    const files = ((written?.Files as { items?: readonly unknown[] } | undefined)?.items ?? []).map(String);
    if (Number(written?.Count ?? 0) === 0) return [];
    await syncFolder(target);
    return this.#pieces(files, select);
  }

  /** Writes all changes into one file, those of earlier commits first. */
  async #ordered(query: string, select: string): Promise<Piece[]> {
    const { session, folder } = this.#task;
    const path = join(folder, 'changes.parquet');
    const rows = await session.number(
      `COPY (${query} ORDER BY _sequence) TO ${sqlText(path)} (FORMAT parquet, COMPRESSION snappy)`,
    );
    return ranges(path, rows, select);
  }

  /**
   * SQL for the present rows of refused keys; deleted keys have none.
   * @param folds whether changes are folded: that leaves out changes of rows without a key, so all such rows come from here
   */
  async #presentImages(retried: string, folds: boolean): Promise<string> {
    const { feed } = this.#task;
    const key = rowKey(feed.key);
    const now = (await this.everything()).map(({ query }) => query).join(' UNION ALL BY NAME ');
    if (now === '') return `SELECT * EXCLUDE (_key) FROM changed WHERE false`;
    return `SELECT * REPLACE ('update' AS _op) FROM (${now}) WHERE (${key} IN (SELECT key FROM (${retried}))
      AND ${key} NOT IN (SELECT _key FROM changed WHERE _key IS NOT NULL))${folds ? ` OR ${key} IS NULL` : ''}`;
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
  return `${op} AS _op, ${sqlText(run_id)} AS _run_id, ${moment} AS _synced_at, ${sequence}::BIGINT AS _sequence`;
}

function nullColumns({ columns }: Feed): string {
  return ColumnSet.restore(columns)
    .list.map(({ name, type }) => `NULL::${type} AS ${quoteIdentifier(name)}`)
    .join(', ');
}

/** Divides a file into pieces. */
function ranges(path: string, rows: number, select: string): Piece[] {
  if (rows === 0) return [];
  if (rows <= 2 * pieceRows) return [{ query: `${select} FROM read_parquet(${fileText(path)})`, rows }];
  const pieces: Piece[] = [];
  for (let from = 0; from < rows; from += pieceRows) {
    const to = Math.min(from + pieceRows, rows);
    const rowsOf = `read_parquet(${fileText(path)}, file_row_number = true)`;
    const query = `${select} FROM ${rowsOf} WHERE file_row_number >= ${from} AND file_row_number < ${to}`;
    pieces.push({ query, rows: to - from });
  }
  return pieces;
}

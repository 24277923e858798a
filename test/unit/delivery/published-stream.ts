import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Kind } from '../../../src/columns/column-shape.js';
import { ColumnSet, type DeclaredColumn } from '../../../src/columns/columns.js';
import { sha256OfFile } from '../../../src/core/durable.js';
import { sqlText } from '../../../src/core/sql.js';
import type { LoadChunk } from '../../../src/delivery/input.js';
import type { Feed, FeedChanges } from '../../../src/snapshot/feed.js';
import { Database, type Row, type Session } from '../../../src/storage/duckdb.js';
import { JobLayout } from '../../../src/storage/layout.js';

/** A row of the stream: its key and a value. */
export interface Change {
  readonly op: 'insert' | 'update' | 'delete';
  readonly id: string;
  readonly n: number | bigint;
}

/** The columns of the stream; those beside `id` and `n` are empty. */
const first: DeclaredColumn[] = [
  { field: 'id', type: 'VARCHAR' },
  { field: 'n', type: 'BIGINT' },
];

/** The published files of one stream, as runs write them, made without a run. */
export class PublishedStream {
  readonly layout: JobLayout;
  readonly session: Session;
  readonly folder: string;
  columns = first;
  /** Whether `n` is an integer of 128 bits. */
  isHuge = false;
  readonly #database: Database;
  #rows = new Map<string, number | bigint>();
  #changes: FeedChanges[] = [];
  #snapshot: Feed['snapshot'] = [];
  /** Runs of a folder that was put back have other ids. */
  #lineage = 'run';
  #completeSince: { sequence: number; runId: string | null } = { sequence: 0, runId: null };

  private constructor(folder: string, database: Database, session: Session) {
    this.folder = folder;
    this.layout = new JobLayout(folder, 'nightly');
    this.#database = database;
    this.session = session;
  }

  static async open(): Promise<PublishedStream> {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-published-'));
    const database = await Database.open({ memoryMb: 256, threads: 2 });
    return new PublishedStream(folder, database, await database.connect());
  }

  async close(): Promise<void> {
    this.session.close();
    this.#database.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Commits as the next run would: the changes in one file, the snapshot in files of `rowsOfFile` rows. */
  async commit(changes: readonly Change[], rowsOfFile = 2): Promise<void> {
    const sequence = (this.#changes.at(-1)?.sequence ?? 0) + 1;
    const runId = `${this.#lineage}-${sequence}`;
    const syncedAt = new Date(Date.UTC(2026, 0, sequence)).toISOString();
    for (const { op, id, n } of changes) {
      if (op === 'delete') this.#rows.delete(id);
      else this.#rows.set(id, n);
    }
    const stamp = `${sqlText(runId)} AS _run_id, ${sqlText(syncedAt)}::TIMESTAMPTZ AS _synced_at`;
    const listed = changes.map(({ op, id, n }) => `SELECT ${sqlText(op)} AS _op, ${stamp}, ${this.#row(id, n)}`);
    const file = `changes/${runId}/00001.parquet`;
    const sha256 = listed.length > 0 ? [await this.write(file, listed.join(' UNION ALL '))] : [];
    const files = listed.length > 0 ? [file] : [];
    this.#changes.push({
      run_id: runId,
      sequence,
      synced_at: syncedAt,
      rows: listed.length,
      files,
      sha256,
    });
    this.#snapshot = [];
    const rows = [...this.#rows];
    for (let from = 0; from < rows.length; from += rowsOfFile) {
      const path = `snapshot/${runId}/${String(from).padStart(5, '0')}.parquet`;
      const part = rows.slice(from, from + rowsOfFile);
      const sha256 = await this.write(path, part.map(([id, n]) => `SELECT ${this.#row(id, n)}`).join(' UNION ALL '));
      this.#snapshot.push({ path, rows: part.length, sha256 });
    }
  }

  #row(id: string, n: number | bigint): string {
    const [, number, ...rest] = this.columns;
    const type = this.isHuge ? 'DECIMAL(38,0)' : number?.type;
    const empty = rest.map(({ field, type }) => `, NULL::${type} AS ${field}`);
    return `${sqlText(id)} AS id, ${n}::${type} AS n${empty.join('')}`;
  }

  /** Writes a file below the stream's folder. @returns its SHA-256 */
  async write(path: string, query: string): Promise<string> {
    const target = join(this.layout.stream('members'), path);
    await mkdir(dirname(target), { recursive: true });
    await this.session.run(`COPY (${query}) TO ${sqlText(target)} (FORMAT parquet)`);
    return sha256OfFile(target);
  }

  get feed(): Feed {
    const last = this.#changes.at(-1) as FeedChanges;
    return {
      version: 1,
      stream: 'members',
      store_id: 'store',
      run_id: last.run_id,
      sequence: last.sequence,
      synced_at: last.synced_at,
      rows: this.#rows.size,
      key: ['id'],
      columns: new ColumnSet(this.columns)
        .store()
        .map(({ declared, ...column }) =>
          this.isHuge && column.name === 'n'
            ? { ...column, shape: { k: Kind.hugeInteger } }
            : { ...column, ...(declared === undefined ? {} : { declared }) },
        ),
      definition: {},
      snapshot: [...this.#snapshot],
      changes: [...this.#changes],
      complete_since: this.#completeSince.sequence,
      complete_since_run: this.#completeSince.runId,
    };
  }

  /** The rows of the snapshot. */
  get rows(): ReadonlyMap<string, number | bigint> {
    return this.#rows;
  }

  /** Erases a row as `cdsync forget` does: also from all changes. */
  async forget(id: string): Promise<void> {
    this.#rows.delete(id);
    for (const [index, commit] of this.#changes.entries()) {
      const [path] = commit.files;
      if (path === undefined) continue;
      const source = join(this.layout.stream('members'), path);
      const rows = `SELECT * FROM read_parquet(${sqlText(source)}) WHERE id <> ${sqlText(id)}`;
      const next = path.replace(/[^/]*$/, `${Date.now()}-${index}.parquet`);
      const left = await this.session.number(`SELECT count(*) FROM (${rows})`);
      const sha256 = await this.write(next, rows);
      const kept = left === 0 ? { files: [], sha256: [] } : { files: [next], sha256: [sha256] };
      this.#changes[index] = { ...commit, rows: left, ...kept };
    }
    await this.commit([]);
  }

  /** Leaves out the changes before the last snapshot, as `keep.changes` does. */
  dropChanges(): void {
    const last = this.#changes.at(-1);
    this.#changes = this.#changes.slice(-1);
    const before = last && { sequence: last.sequence, runId: last.run_id };
    if (before !== undefined) this.#completeSince = before;
  }

  /** Puts the storage folder back as it was: what follows is another lineage. */
  remember(): () => void {
    const [rows, changes, snapshot, since] = [
      new Map(this.#rows),
      [...this.#changes],
      this.#snapshot,
      this.#completeSince,
    ];
    return () => {
      [this.#rows, this.#changes, this.#snapshot, this.#completeSince] = [new Map(rows), [...changes], snapshot, since];
      this.#lineage = `${this.#lineage}x`;
    };
  }

  /** The rows of an input, in its order. */
  async read(pieces: readonly LoadChunk[]): Promise<Row[]> {
    const rows: Row[] = [];
    for (const { query, rows: count } of pieces) {
      const found = await this.session.rows(query);
      if (found.length !== count) throw new Error(`a piece of ${count} rows has ${found.length}`);
      rows.push(...found);
    }
    return rows;
  }
}

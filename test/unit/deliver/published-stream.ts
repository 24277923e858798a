import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { sqlText } from '../../../src/core/sql.js';
import type { Piece } from '../../../src/deliver/input.js';
import { ColumnSet, type DeclaredColumn } from '../../../src/rows/columns.js';
import { Database, type Row, type Session } from '../../../src/store/duckdb.js';
import type { Feed, FeedChanges } from '../../../src/store/feed.js';
import { JobLayout } from '../../../src/store/layout.js';

/** A row of the stream: its key and a value. */
export interface Change {
  readonly op: 'insert' | 'update' | 'delete';
  readonly id: string;
  readonly n: number;
}

const columns: DeclaredColumn[] = [
  { field: 'id', type: 'VARCHAR' },
  { field: 'n', type: 'BIGINT' },
];

/** The published files of one stream, as runs write them, made without a run. */
export class PublishedStream {
  readonly layout: JobLayout;
  readonly session: Session;
  readonly folder: string;
  readonly #database: Database;
  readonly #rows = new Map<string, number>();
  readonly #changes: FeedChanges[] = [];
  #snapshot: Feed['snapshot'] = [];

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
    const sequence = this.#changes.length + 1;
    const runId = `run-${sequence}`;
    const syncedAt = new Date(Date.UTC(2026, 0, sequence)).toISOString();
    for (const { op, id, n } of changes) {
      if (op === 'delete') this.#rows.delete(id);
      else this.#rows.set(id, n);
    }
    const stamp = `${sqlText(runId)} AS _run_id, ${sqlText(syncedAt)}::TIMESTAMPTZ AS _synced_at`;
    const listed = changes.map(({ op, id, n }) => `SELECT ${sqlText(op)} AS _op, ${stamp}, ${row(id, n)}`);
    const file = `changes/${runId}/00001.parquet`;
    if (listed.length > 0) await this.write(file, listed.join(' UNION ALL '));
    const files = listed.length > 0 ? [file] : [];
    this.#changes.push({ run_id: runId, sequence, synced_at: syncedAt, rows: listed.length, files });
    this.#snapshot = [];
    const rows = [...this.#rows];
    for (let from = 0; from < rows.length; from += rowsOfFile) {
      const path = `snapshot/${runId}/${String(from).padStart(5, '0')}.parquet`;
      const part = rows.slice(from, from + rowsOfFile);
      await this.write(path, part.map(([id, n]) => `SELECT ${row(id, n)}`).join(' UNION ALL '));
      this.#snapshot.push({ path, rows: part.length });
    }
  }

  /** Writes a file below the stream's folder. */
  async write(path: string, query: string): Promise<void> {
    const target = join(this.layout.stream('members'), path);
    await mkdir(dirname(target), { recursive: true });
    await this.session.run(`COPY (${query}) TO ${sqlText(target)} (FORMAT parquet)`);
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
      columns: new ColumnSet(columns).store(),
      definition: {},
      snapshot: [...this.#snapshot],
      changes: [...this.#changes],
      complete_since: 0,
    };
  }

  /** The rows of an input, in its order. */
  async read(pieces: readonly Piece[]): Promise<Row[]> {
    const rows: Row[] = [];
    for (const { query, rows: count } of pieces) {
      const found = await this.session.rows(query);
      if (found.length !== count) throw new Error(`a piece of ${count} rows has ${found.length}`);
      rows.push(...found);
    }
    return rows;
  }
}

function row(id: string, n: number): string {
  return `${sqlText(id)} AS id, ${n}::BIGINT AS n`;
}

import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordBatch } from 'apache-arrow';
import { rowKey } from '../../columns/row-hash.js';
import { CdsyncError } from '../../core/errors.js';
import { sqlText } from '../../core/sql.js';
import type { CsvDialect, TableCapabilities } from '../../sdk/capabilities.js';
import type { DataFile, LoadColumn, LoadData } from '../../sdk/former/load.js';
import type { Session } from '../../storage/duckdb.js';
import type { LoadChunk } from '../input.js';
import {
  type Handover,
  handoverSql,
  loadColumns,
  refusedButForNulSql,
  refusedRowsSql,
  refusedSql,
} from './handover.js';
import type { Reject } from './rejects.js';

export interface LoadDataTask {
  /** A session for the load alone: its statements run one after the other. */
  readonly session: Session;
  readonly pieces: readonly LoadChunk[];
  readonly handover: Handover;
  readonly capabilities: Pick<TableCapabilities, 'format' | 'csv'>;
  /** The folder for the files. */
  readonly folder: string;
  readonly onReject: 'continue' | 'fail';
  /** Called with the number of rows dealt with so far. */
  readonly progress: (rows: number) => void;
  /** Called after all rows are handed over, before the load is committed. */
  readonly handedOver: (rejects: readonly Reject[]) => Promise<void>;
}

function copyOptions({ format = 'parquet', csv = {} }: LoadDataTask['capabilities']): string {
  if (format === 'parquet') return 'FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1';
  if (format === 'jsonl') return 'FORMAT json, ARRAY false';
  return csvOptions(csv);
}

function csvOptions({ null: nothing = '', delimiter = ',', quote = '"', header = false, ...dialect }: CsvDialect) {
  const texts = { NULLSTR: nothing, DELIMITER: delimiter, QUOTE: quote, ESCAPE: dialect.escape ?? quote };
  const given = Object.entries(texts).map(([name, text]) => `${name} ${sqlText(text)}`);
  return `FORMAT csv, HEADER ${header}, ${given.join(', ')}`;
}

/** The error for a refused row if the job has `on_reject: fail`. */
function rejectError({ column, reason }: Reject): CdsyncError {
  const where = column === null ? '' : ` in column "${column}"`;
  return new CdsyncError(`the destination cannot hold a row: ${reason}${where}`, {
    code: 'row_rejected',
    hint: 'correct it at the source, or deliver the others without it: on_reject: continue',
  });
}

const escapedNul = '\\u0000';

/** Whether a text file contains U+0000, raw or as a JSON escape. If it does not, no value does. */
async function mayHoldNul(path: string): Promise<boolean> {
  let before = Buffer.alloc(0);
  for await (const read of createReadStream(path, { highWaterMark: 1 << 20 })) {
    const chunk = Buffer.concat([before, read as Buffer]);
    if (chunk.includes(0) || chunk.includes(escapedNul)) return true;
    before = chunk.subarray(-escapedNul.length);
  }
  return false;
}

/** The rows of one load. DuckDB writes the next file while the connector loads the present one. */
export class PieceData implements LoadData {
  readonly columns: readonly LoadColumn[];
  readonly rows: number;
  handedOver = 0;
  readonly rejects: Reject[] = [];
  readonly #task: LoadDataTask;
  #files = 0;

  constructor(task: LoadDataTask) {
    this.#task = task;
    this.columns = loadColumns(task.handover);
    this.rows = task.pieces.reduce((total, { rows }) => total + rows, 0);
  }

  async *files(): AsyncGenerator<DataFile> {
    const { pieces, progress } = this.#task;
    let ahead = this.#write(pieces[0]);
    for (let index = 0; index < pieces.length; index += 1) {
      const file = await ahead;
      ahead = this.#write(pieces[index + 1]);
      // If the load stops in the middle, nobody awaits this promise.
      ahead.catch(() => undefined);
      if (file === undefined) continue;
      this.handedOver += file.rows;
      yield file;
      progress(this.handedOver + this.rejects.length);
      await rm(file.path, { force: true });
    }
    await this.#task.handedOver(this.rejects);
  }

  async *batches(): AsyncGenerator<RecordBatch> {
    const { session, pieces, handover, progress } = this.#task;
    // Apache Arrow has a hundred modules, and most loads do not need it.
    const { arrowBatches } = await import('../arrow-batches.js');
    const refused = refusedSql(handover);
    for (const { query, rows } of pieces) {
      const where = refused === undefined ? '' : ` WHERE NOT ${refused}`;
      let given = 0;
      for await (const batch of arrowBatches(session, handoverSql(handover, query, where), this.columns)) {
        given += batch.numRows;
        this.handedOver += batch.numRows;
        yield batch;
        progress(this.handedOver + this.rejects.length);
      }
      if (given < rows) await this.#findRefused(query, rows - given);
    }
    await this.#task.handedOver(this.rejects);
  }

  async #write(piece: LoadChunk | undefined): Promise<DataFile | undefined> {
    if (piece === undefined) return undefined;
    const refused = refusedSql(this.#task.handover);
    const path = this.#name();
    const rows = await this.#writeRows(path, piece.query, refused);
    if (rows < piece.rows) await this.#findRefused(piece.query, piece.rows - rows);
    if (rows === 0) {
      await rm(path, { force: true });
      return undefined;
    }
    const kept = refused === undefined ? piece.query : `SELECT * FROM (${piece.query}) WHERE NOT ${refused}`;
    return this.#file(path, rows, kept);
  }

  /** Writes the rows of a query to a file, without the refused ones. Returns how many rows it wrote. */
  async #writeRows(path: string, query: string, refused: string | undefined): Promise<number> {
    const { session, handover, capabilities } = this.#task;
    const write = (but: string | undefined) => {
      const sql = handoverSql(handover, query, but === undefined ? '' : ` WHERE NOT ${but}`);
      return session.number(`COPY (${sql}) TO ${sqlText(path)} (${copyOptions(capabilities)})`);
    };
    const butForNul = refusedButForNulSql(handover);
    const isText = (capabilities.format ?? 'parquet') !== 'parquet';
    if (!isText || butForNul === refused) return write(refused);
    // A search through the written text costs almost nothing; a search for U+0000 in every column, a third of the work.
    const rows = await write(butForNul);
    return (await mayHoldNul(path)) ? write(refused) : rows;
  }

  #name(): string {
    this.#files += 1;
    return join(this.#task.folder, `${this.#files}.${this.#task.capabilities.format ?? 'parquet'}`);
  }

  async #file(path: string, rows: number, query: string): Promise<DataFile> {
    const { size: bytes } = await stat(path);
    return { path, rows, bytes, refuse: (row, why) => this.#refuse({ path, rows, query }, row, why) };
  }

  /** Writes a file again without one of its rows. */
  async #refuse(
    file: { path: string; rows: number; query: string },
    row: number,
    { column, reason }: { readonly column?: string | undefined; readonly reason: string },
  ): Promise<DataFile> {
    const { session, handover, capabilities } = this.#task;
    const numbered = `SELECT *, row_number() OVER () AS _row FROM (${file.query})`;
    const [refused] = await session.rows(
      `SELECT ${rowKey(handover.key)} AS key, _run_id FROM (${numbered}) WHERE _row = ${row}`,
    );
    if (refused === undefined) throw new Error(`the file has ${file.rows} rows; row ${row} was refused`);
    const key = refused.key === null ? null : String(refused.key);
    this.#reject({ key, column: column ?? null, reason, run_id: String(refused._run_id) });
    const query = `SELECT * EXCLUDE (_row) FROM (${numbered}) WHERE _row <> ${row}`;
    const path = this.#name();
    await session.run(`COPY (${handoverSql(handover, query)}) TO ${sqlText(path)} (${copyOptions(capabilities)})`);
    await rm(file.path, { force: true });
    this.handedOver -= 1;
    return this.#file(path, file.rows - 1, query);
  }

  async #findRefused(query: string, count: number): Promise<void> {
    const rows = await this.#task.session.rows(refusedRowsSql(this.#task.handover, query));
    if (rows.length !== count) throw new Error(`${rows.length} rows are refused, but ${count} are missing`);
    for (const { key, column, reason, run_id } of rows) {
      const text = (value: unknown) => (value === null ? null : String(value));
      this.#reject({ key: text(key), column: text(column), reason: String(reason), run_id: String(run_id) });
    }
  }

  #reject(reject: Reject): void {
    if (this.#task.onReject === 'fail') throw rejectError(reject);
    this.rejects.push(reject);
  }
}

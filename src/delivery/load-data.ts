import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordBatch } from 'apache-arrow';
import { rowKey } from '../columns/row-hash.js';
import { CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import type { TableCapabilities } from '../sdk/destination.js';
import { vendorLibrary } from '../sdk/errors.js';
import type { DataFile, LoadColumn, LoadData, RefusedValue } from '../sdk/load.js';
import type { Row, Session } from '../storage/duckdb.js';
import { areLarge, rowsTogether } from '../storage/large-rows.js';
import type { Reject } from './delivery-state.js';
import {
  type ExportColumns,
  expectedSql,
  exportSql,
  hasRefusals,
  hasValueRefusals,
  type LateRefusal,
  loadColumns,
  looksForNul,
  numberedRow,
  type RowsTask,
  rejectsSql,
  rowNumberName,
  type Search,
} from './handover.js';
import type { LoadChunk } from './input.js';
import type { DeliveredColumn } from './table/columns.js';

interface LoadDataTask {
  /** A session for the load alone: its statements run one after the other. */
  readonly session: Session;
  readonly pieces: readonly LoadChunk[];
  /** Of a row, on average, where rows are largest. */
  readonly rowBytes: number;
  readonly handover: ExportColumns;
  readonly capabilities: Pick<TableCapabilities, 'format' | 'csvNull'>;
  /** The folder for the files. */
  readonly folder: string;
  readonly onReject: 'continue' | 'fail';
  /** Called with the number of rows dealt with so far. */
  readonly progress: (rows: number) => void;
}

function copyOptions({ capabilities, rowBytes }: Pick<LoadDataTask, 'capabilities' | 'rowBytes'>): string {
  const { format = 'parquet', csvNull = '' } = capabilities;
  // A writer, and each reader, has a whole row group in memory.
  const groups = areLarge(rowBytes) ? `, ROW_GROUP_SIZE ${rowsTogether(rowBytes)}` : '';
  if (format === 'parquet') return `FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1${groups}`;
  if (format === 'jsonl') return 'FORMAT json, ARRAY false';
  return `FORMAT csv, HEADER false, NULLSTR ${sqlText(csvNull)}, DELIMITER ',', QUOTE '"', ESCAPE '"'`;
}

/** The error for a refused row if the job has `on_reject: fail`. */
export function rejectError({ column, reason }: Reject): CdsyncError {
  const where = column === null ? '' : ` in column "${column}"`;
  return new CdsyncError(`the destination cannot hold a value: ${reason}${where}`, {
    code: 'values_refused',
    hint: 'correct it at the source, or let it arrive empty: on_reject: continue',
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

/** A piece that was handed over, as it was in the end. */
interface HandedPiece {
  task: RowsTask;
}

/** The rows of one load. DuckDB writes the next file while the connector loads the present one. */
export class PieceData implements LoadData {
  readonly columns: readonly LoadColumn[];
  readonly rows: number;
  handedOver = 0;
  readonly rejects: Reject[] = [];
  readonly #task: LoadDataTask;
  readonly #handed: HandedPiece[] = [];
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
      // If the load stops in the middle, this promise is never awaited.
      ahead.catch(() => undefined);
      if (file === undefined) continue;
      this.handedOver += file.rows;
      yield file;
      progress(this.handedOver);
      await rm(file.path, { force: true });
    }
  }

  async *batches(): AsyncGenerator<RecordBatch> {
    const { session, pieces, handover, progress } = this.#task;
    const { arrowBatches } = await vendorLibrary('apache-arrow', () => import('./arrow-batches.js'));
    const names = this.columns.map(({ name }) => name);
    for (const { query, rows } of pieces) {
      const task: RowsTask = { query, search: { nul: true }, late: [] };
      this.#handed.push({ task });
      let arrived = 0;
      for await (const batch of arrowBatches(session, exportSql(handover, task), names)) {
        arrived += batch.numRows;
        this.handedOver += batch.numRows;
        yield batch;
        progress(this.handedOver);
      }
      await this.#findRejects(task, rows - arrived);
    }
  }

  /** Takes all rows for handed over, without writing them. */
  assume(): void {
    for (const { query } of this.#task.pieces) this.#handed.push({ task: { query, search: { nul: true }, late: [] } });
  }

  /**
   * The rows that must be in the table, in figures.
   * @param sums SQL of aggregates; `c0`, `c1` … are the texts of the columns in order
   * @param text SQL of the text of a column's value
   */
  async *expected(sums: string, text: (column: DeliveredColumn) => string): AsyncGenerator<Row> {
    const { session, handover } = this.#task;
    for (const { task } of this.#handed) {
      const [row] = await session.rows(`SELECT ${sums} FROM (${expectedSql(handover, task, text)})`);
      if (row !== undefined) yield row;
    }
  }

  /** How many rows there are of each operation. */
  async operations(): Promise<{ insert: number; update: number; delete: number }> {
    const total = { insert: 0, update: 0, delete: 0 };
    for (const { query } of this.#task.pieces) {
      const counts = await this.#task.session.rows(`SELECT _op AS op, count(*) AS n FROM (${query}) GROUP BY _op`);
      for (const { op, n } of counts) total[op as keyof typeof total] += Number(n);
    }
    return total;
  }

  /** How many values the destination cannot hold, without handing anything over. */
  async refusedValues(): Promise<{ column: string; reason: string; values: number }[]> {
    const { session, pieces, handover } = this.#task;
    const counts = new Map<string, { column: string; reason: string; values: number }>();
    const search: Search = { nul: true };
    if (!hasRefusals(handover, search)) return [];
    for (const { query } of pieces) {
      const countQuery = `SELECT "column", reason, count(*) AS n FROM (${rejectsSql(handover, { query, search })}) WHERE NOT is_delete GROUP BY ALL`;
      for (const { column, reason, n } of await session.rows(countQuery)) {
        const id = JSON.stringify([column, reason]);
        const count = counts.get(id) ?? { column: String(column), reason: String(reason), values: 0 };
        counts.set(id, { ...count, values: count.values + Number(n) });
      }
    }
    return [...counts.values()];
  }

  async #write(piece: LoadChunk | undefined): Promise<DataFile | undefined> {
    if (piece === undefined) return undefined;
    const { handover, capabilities } = this.#task;
    const path = this.#name();
    const isText = (capabilities.format ?? 'parquet') !== 'parquet';
    let search: Search = { nul: !isText };
    let rows = await this.#copy(path, { query: piece.query, search, late: [] });
    // A search through the written text costs almost nothing; a search for U+0000 in every column, a third of the work.
    if (isText && looksForNul(handover) && (await mayHoldNul(path))) {
      search = { nul: true };
      rows = await this.#copy(path, { query: piece.query, search, late: [] });
    }
    const task: RowsTask = { query: piece.query, search, late: [] };
    await this.#findRejects(task, piece.rows - rows);
    const handed = { task };
    this.#handed.push(handed);
    if (rows === 0) {
      await rm(path, { force: true });
      return undefined;
    }
    return this.#file(path, rows, handed);
  }

  #copy(path: string, task: RowsTask): Promise<number> {
    const { session, handover } = this.#task;
    return session.number(`COPY (${exportSql(handover, task)}) TO ${sqlText(path)} (${copyOptions(this.#task)})`);
  }

  #name(): string {
    this.#files += 1;
    return join(this.#task.folder, `${this.#files}.${this.#task.capabilities.format ?? 'parquet'}`);
  }

  async #file(path: string, rows: number, handed: HandedPiece): Promise<DataFile> {
    const { size: bytes } = await stat(path);
    const refuseAll = (values: readonly RefusedValue[]) => this.#refuse({ path, rows, handed }, values);
    return { path, rows, bytes, refuse: (row, why) => refuseAll([{ row, ...why }]), refuseAll };
  }

  /** Writes a file again without some of its values; without a row if its value is a part of the key. */
  async #refuse(
    { path: written, rows, handed }: { path: string; rows: number; handed: HandedPiece },
    values: readonly RefusedValue[],
  ): Promise<DataFile> {
    const { session, handover } = this.#task;
    const { task } = handed;
    const lengths = handover.columns.map(
      ({ value }, index) => `strlen((${value})::VARCHAR) AS ${quoteIdentifier(`l${index}`)}`,
    );
    const refused = values.map((value) => ({ ...value, original: originalRow(value.row, task.late) }));
    const numbers = [...new Set(refused.map(({ original }) => original))];
    const changedRows = await session.rows(
      `SELECT ${rowNumberName} AS n, ${rowKey(handover.key)} AS key, _run_id AS run_id, _op AS op, ${lengths.join(', ')} FROM ${numberedRow(handover, task, numbers)}`,
    );
    const byNumber = new Map(changedRows.map((row) => [Number(row.n), row]));
    const late: LateRefusal[] = [...task.late];
    for (const { row: number, original, column, reason } of refused) {
      const row = byNumber.get(original);
      if (row === undefined) throw new Error(`the file has ${rows} rows; row ${number} was refused`);
      const target = this.#refusedColumn(column, row, late, original);
      const isRow = target.isKey && handover.needsKey;
      late.push({ row: original, column: isRow ? null : target.name });
      if (!isRow || row.op !== 'delete')
        this.#reject({
          key: row.key === null ? null : String(row.key),
          column: target.name,
          reason,
          run_id: String(row.run_id),
        });
    }
    handed.task = { ...task, late };
    const path = this.#name();
    const kept = await this.#copy(path, handed.task);
    await rm(written, { force: true });
    this.handedOver -= rows - kept;
    return this.#file(path, kept, handed);
  }

  /** The column that was refused; if the destination does not say, the longest value that is not refused yet. */
  #refusedColumn(column: string | undefined, lengths: Row, late: readonly LateRefusal[], row: number): DeliveredColumn {
    const { columns } = this.#task.handover;
    const named = columns.find(({ name }) => name === column);
    if (named !== undefined) return named;
    const refused = new Set(late.filter((refusal) => refusal.row === row).map((refusal) => refusal.column));
    const open = columns
      .map((column, index) => ({ each: column, length: Number(lengths[`l${index}`] ?? 0) }))
      .filter(({ each, length }) => !each.isKey && each.path !== undefined && length > 0 && !refused.has(each.name))
      .sort((one, other) => other.length - one.length);
    if (open[0] === undefined)
      throw new CdsyncError('the destination refuses a row, and does not say which value', {
        code: 'destination_refused',
      });
    return open[0].each;
  }

  /** @param missing how many rows of the piece were not handed over */
  async #findRejects(task: RowsTask, missing: number): Promise<void> {
    const { session, handover } = this.#task;
    if (missing === 0 && !hasValueRefusals(handover, task.search)) return;
    let lost = 0;
    for (const { key, column, reason, run_id, is_row, is_delete } of await session.rows(rejectsSql(handover, task))) {
      const text = (value: unknown) => (value === null ? null : String(value));
      if (is_row === true) lost += 1;
      if (is_delete !== true)
        this.#reject({ key: text(key), column: text(column), reason: String(reason), run_id: String(run_id) });
    }
    if (lost < missing) throw new Error(`${missing} rows are missing, and only ${lost} are refused`);
  }

  #reject(reject: Reject): void {
    if (this.#task.onReject === 'fail') throw rejectError(reject);
    this.rejects.push(reject);
  }
}

/** The number that a row of a file had before whole rows were taken out. */
function originalRow(row: number, late: readonly LateRefusal[]): number {
  const lost = late
    .flatMap(({ row: taken, column }) => (column === null ? [taken] : []))
    .sort((one, other) => one - other);
  return lost.reduce((number, taken) => (taken <= number ? number + 1 : number), row);
}

import { stat } from 'node:fs/promises';
import pLimit from 'p-limit';
import type { ColumnRules } from '../../columns/column-rules.js';
import {
  type Column,
  type ColumnMask,
  ColumnSet,
  countLeaves,
  holdNegativeZero,
  isMasked,
  type StoredColumn,
} from '../../columns/columns.js';
import { formerText, maskedValueSql, misfits } from '../../columns/masked-value.js';
import { hashWords } from '../../columns/record-hash.js';
import { wideColumns } from '../../columns/row-hash.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { fileText, internalName, quoteIdentifier, sqlText } from '../../core/sql.js';
import type { Database, Session } from '../../storage/duckdb.js';
import { areLarge, isWithin, rangesWithin, rowsTogether } from '../../storage/large-rows.js';
import { type ParquetCompression, writeParquet } from '../../storage/parquet.js';
import { keysVersion, type PartFiles, type PartRecord, writeKeys } from '../../storage/part.js';

/** Scanned and staged records that are ready to become a part. */
interface SealedBatch {
  /** Path of the file with the JSON array of the records. */
  readonly stagingFile: string;
  readonly records: number;
  /** Size of the longest record, or more. */
  readonly maxRecordBytes: number;
  /** The columns when the batch was sealed; every value in the batch fits them. */
  readonly columns: readonly StoredColumn[];
  readonly rules: ColumnRules;
  /** Columns that make the key. */
  readonly key: readonly string[];
  /** Number of the part, which orders copies of one key. */
  readonly number: number;
  /** Where to write the part. */
  readonly files: PartFiles;
  readonly compression: ParquetCompression;
  /** The hash of each record's bytes, four words each; left out: the record cache does not need them. */
  readonly raw?: Uint32Array | undefined;
}

/** A finished part, with the columns that it really has. */
type ConvertedPart = Pick<PartRecord, 'rows' | 'bytes' | 'sha256' | 'hash_version' | 'columns'> & {
  /** SHA-256 of the keys file. */
  readonly keys_sha256: string;
};

/** Turns batches into parts. */
export interface PartConverter {
  /**
   * Makes the part with a row for each record, in their order, and its keys; both are durable on return. Several batches
   * may be under way at once. A failed batch may be made again.
   * @throws {CdsyncError} `conversion_failed`, `disk_full`
   */
  make(batch: SealedBatch): Promise<ConvertedPart>;
}

/** The type with which a column is read from the staging file: VARCHAR if the scanner wrote its values as text. */
function stagedType({ type, declared, form }: Column): string {
  return declared !== undefined || form !== undefined || type === 'JSON' ? 'VARCHAR' : type;
}

function readStagingFile(columns: readonly Column[], stagingFile: string, maxRecordBytes: number): string {
  const typed = columns.map((column) => `${quoteIdentifier(column.name)}: ${sqlText(stagedType(column))}`);
  return `read_json(${fileText(stagingFile)}, format = 'array', records = true, columns = {${typed.join(', ')}}, maximum_object_size = ${largestObject(maxRecordBytes)})`;
}

function largestObject(maxRecordBytes: number): number {
  return Math.max(16_777_216, maxRecordBytes * 2);
}

const stagedTable = internalName('staged');

/** A value of a list may take this many times the bytes of its text. */
const listedBytes = 2;

/**
 * The same for few records at a time: lists are many times as large as their text, and DuckDB doubles the memory of all lists of a vector
 * until they fit. A row group of the part has the records of a vector, or more.
 */
async function readFewTogether(
  session: Session,
  { stagingFile, records, maxRecordBytes }: SealedBatch,
  rowBytes: number,
) {
  const objects = `read_json_objects(${fileText(stagingFile)}, format = 'array', maximum_object_size = ${largestObject(maxRecordBytes)})`;
  await session.run(`CREATE OR REPLACE TEMP TABLE ${stagedTable} AS SELECT json FROM ${objects}`);
  const ranges = rangesWithin({ first: 0, last: records - 1 }, rowsTogether(rowBytes));
  return (columns: readonly Column[]) => {
    const read = `SELECT r.* FROM (SELECT from_json(json, ${sqlText(structure(columns))}) AS r FROM ${stagedTable} WHERE `;
    return `(${ranges.map((range) => `${read}${isWithin(range)})`).join(' UNION ALL ')})`;
  };
}

/** SQL for the kept value of a staged column. */
function selected(column: Column, rule: ColumnMask | undefined): string {
  const name = quoteIdentifier(column.name);
  if (rule !== undefined && isMasked(rule)) {
    const type = stagedType(column);
    const isText = column.type === 'JSON' && column.declared === undefined;
    return `${maskedValueSql(isText ? `${name}::JSON` : name, isText ? column : { ...column, type }, rule)} AS ${name}`;
  }
  if (column.form !== undefined) return `${column.form.typed(name, 'file')} AS ${name}`;
  const needsCast = column.fileType !== stagedType(column);
  if (column.former !== undefined) return `${formerText(name, column.former)} AS ${name}`;
  if (needsCast && column.declared !== undefined) return `nullif(${name}, '')::${column.fileType} AS ${name}`;
  return needsCast ? `${name}::${column.fileType} AS ${name}` : name;
}

/** Converts batches to Parquet parts with DuckDB, off the main thread, on one thread each, at most `lanes` at once in the whole process. */
export class Converter implements PartConverter {
  readonly #database: Database;
  readonly #limit: ReturnType<typeof pLimit>;
  /**
   * Batches that are converted one by one: wide ones, because DuckDB reserves 2048 values of each column in every step of a statement, and
   * those for which the memory did not suffice beside others.
   */
  readonly #single = pLimit(1);
  readonly #idle: Session[] = [];

  constructor(database: Database, lanes: number) {
    this.#database = database;
    this.#limit = pLimit(lanes);
  }

  async make(batch: SealedBatch): Promise<ConvertedPart> {
    const leaves = countLeaves(batch.columns);
    const make = () => this.#limit(() => this.#make(batch, leaves));
    if (leaves > wideColumns) return this.#single(make);
    try {
      return await make();
    } catch (error) {
      if (!(error instanceof CdsyncError && error.code === 'memory_exceeded') || this.#limit.concurrency === 1)
        throw error;
      return this.#single(() => this.#inAllLanes(() => this.#make(batch, leaves)));
    }
  }

  /** Does work while no batch is under way. */
  async #inAllLanes<T>(work: () => Promise<T>): Promise<T> {
    let leave: () => void = () => undefined;
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const hold = () =>
      new Promise<void>((entered) => {
        void this.#limit(() => {
          entered();
          return left;
        });
      });
    try {
      await Promise.all(Array.from({ length: this.#limit.concurrency }, hold));
      return await work();
    } finally {
      leave();
    }
  }

  async #make(batch: SealedBatch, widestColumns: number): Promise<ConvertedPart> {
    const session = this.#idle.pop() ?? (await this.#database.connectToConvert());
    try {
      return await this.#database.use('writing files', { widestColumns }, () => convertOn(session, batch));
    } catch (error) {
      throw conversionError(error);
    } finally {
      this.#idle.push(session);
    }
  }

  close(): void {
    for (const session of this.#idle.splice(0)) session.close();
  }
}

/**
 * Makes a declared column text if a value does not fit its declared type, so that the value is kept unchanged.
 * @param source SQL for rows with at least the given columns, as they were read from the staging file
 */
async function dropMismatchedTypes(
  session: Session,
  set: ColumnSet,
  source: (columns: readonly Column[]) => string,
): Promise<void> {
  const declared = set.list.filter((column) => column.type !== stagedType(column) && column.declared !== undefined);
  if (declared.length === 0) return;
  const counts = declared.map((column) => {
    const name = quoteIdentifier(column.name);
    return `count(*) FILTER (${name} <> '' AND (${misfits(name, column.type)})) AS ${name}`;
  });
  const [row] = await session.rows(`SELECT ${counts.join(', ')} FROM ${source(declared)}`);
  for (const column of declared) {
    if (Number(row?.[column.name] ?? 0) === 0) continue;
    set.undeclare(column);
  }
}

/** SQL for rows with the `kept` columns, from a `source` with the columns as they were `read` from the staging file. */
function convertedRows(read: ColumnSet, kept: ColumnSet, source: string): string {
  const values = kept.list.map(({ place, field, rule }) => selected(read.get(place, field) as Column, rule));
  return `SELECT ${values.join(', ')} FROM ${source}`;
}

async function convertOn(session: Session, batch: SealedBatch): Promise<ConvertedPart> {
  const { stagingFile, records, maxRecordBytes, rules, key, number, files, compression, raw } = batch;
  const set = ColumnSet.restore(batch.columns);
  const textBytes = (await stat(stagingFile)).size / Math.max(1, records);
  const hasLists = set.list.some(({ type }) => type.endsWith(']') || type.startsWith('STRUCT('));
  const rowBytes = hasLists ? textBytes * listedBytes : textBytes;
  const isStaged = hasLists && areLarge(textBytes);
  const source = isStaged
    ? await readFewTogether(session, batch, rowBytes)
    : (columns: readonly Column[]) => readStagingFile(columns, stagingFile, maxRecordBytes);
  const write = async () => {
    await dropMismatchedTypes(session, set, source);
    const kept = ColumnSet.restore(rules.keep(set.store()));
    const read = kept.list.map(({ place, field }) => set.get(place, field) as Column);
    const query = convertedRows(set, kept, source(read));
    const form = { compression, keepsZeroSigns: holdNegativeZero(kept.store()), rowBytes };
    return { kept, ...(await writeParquet(session, query, files.path, form)) };
  };
  // The session takes other batches, also after a failure.
  const { kept, rows, bytes, sha256 } = await write().finally(async () => {
    if (isStaged) await session.run(`DROP TABLE IF EXISTS ${stagedTable}`).catch(() => undefined);
  });
  if (rows !== records || (raw !== undefined && raw.length !== records * hashWords)) {
    throw new CdsyncError(`a part holds ${rows} rows, but its staging file has ${records} records`, {
      code: 'conversion_failed',
      hint: 'run again; if it stays, report it with the version of cdsync',
    });
  }
  const keyed = { number, path: files.path, columns: kept.list, key };
  const keys = await writeKeys(session, keyed, files.keysPath, raw);
  return { rows, bytes, sha256, keys_sha256: keys.sha256, hash_version: keysVersion(), columns: kept.store() };
}

function conversionError(error: unknown): CdsyncError {
  const failure = asCdsyncError(error);
  if (failure.code !== 'database_failed') return failure;
  return new CdsyncError('a batch of records could not be converted', {
    code: 'conversion_failed',
    hint: 'run again; if it stays, report it with the version of cdsync',
    cause: failure.cause,
    causeQuotesValues: true,
  });
}

/** The structure of the records, as DuckDB's `from_json` takes it. */
function structure(columns: readonly Column[]): string {
  return JSON.stringify(Object.fromEntries(columns.map((column) => [column.name, stagedType(column)])));
}

/** Rows in the form in which a run would keep them. */
export interface SampledRows {
  /** SQL that returns the rows. */
  readonly query: string;
  readonly columns: ColumnSet;
}

/**
 * Converts scanned records to the rows that a run would make of them, without a file in between.
 * @param records as a scanner writes them, separated by commas
 * @param read the columns of the scanner; a declared column becomes text if a value does not fit its type
 */
export async function sampledRows(
  session: Session,
  records: string,
  { read, rules }: { readonly read: ColumnSet; readonly rules: ColumnRules },
): Promise<SampledRows> {
  const source = () =>
    `(SELECT r.* FROM (SELECT unnest(from_json(${sqlText(`[${records}]`)}, ${sqlText(`[${structure(read.list)}]`)})) AS r))`;
  await dropMismatchedTypes(session, read, source);
  const columns = ColumnSet.restore(rules.keep(read.store()));
  return { query: convertedRows(read, columns, source()), columns };
}

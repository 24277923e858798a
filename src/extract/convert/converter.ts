import pLimit from 'p-limit';
import { type Column, type ColumnMask, ColumnSet, holdNegativeZero } from '../../columns/columns.js';
import { formerText, maskedValueSql, misfits } from '../../columns/masked-value.js';
import { hashWords } from '../../columns/record-hash.js';
import { wideColumns } from '../../columns/row-hash.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { fileText, quoteIdentifier, sqlText } from '../../core/sql.js';
import type { Database, Session } from '../../storage/duckdb.js';
import { keysVersion, writeKeys } from '../../storage/keys-file.js';
import { writeParquet } from '../../storage/parquet.js';
import type { ConvertedPart, PartConverter, SealedBatch } from './part-converter.js';

/** The type with which a column is read from the spool: VARCHAR if the scanner wrote its values as text. */
export function spooledType({ type, declared, form }: Column): string {
  return declared !== undefined || form !== undefined || type === 'JSON' ? 'VARCHAR' : type;
}

function readSpool(columns: readonly Column[], spool: string, maxRecordBytes: number): string {
  const typed = columns.map((column) => `${quoteIdentifier(column.name)}: ${sqlText(spooledType(column))}`);
  const largest = Math.max(16_777_216, maxRecordBytes * 2);
  return `read_json(${fileText(spool)}, format = 'array', records = true, columns = {${typed.join(', ')}}, maximum_object_size = ${largest})`;
}

/** SQL for the kept value of a spooled column. */
function selected(column: Column, treatment: ColumnMask | undefined): string {
  const name = quoteIdentifier(column.name);
  if (treatment?.hash !== undefined || treatment?.mask !== undefined) {
    const type = spooledType(column);
    const isText = column.type === 'JSON' && column.declared === undefined;
    return `${maskedValueSql(isText ? `${name}::JSON` : name, isText ? column : { ...column, type }, treatment)} AS ${name}`;
  }
  if (column.form !== undefined) return `${column.form.typed(name, 'file')} AS ${name}`;
  const needsCast = column.fileType !== spooledType(column);
  if (column.former !== undefined) return `${formerText(name, column.former)} AS ${name}`;
  if (needsCast && column.declared !== undefined) return `nullif(${name}, '')::${column.fileType} AS ${name}`;
  return needsCast ? `${name}::${column.fileType} AS ${name}` : name;
}

/** Converts batches to Parquet parts with DuckDB, off the main thread, on one thread each, at most `lanes` at once in the whole process. */
export class Converter implements PartConverter {
  readonly #database: Database;
  readonly #limit: ReturnType<typeof pLimit>;
  /** DuckDB has room for 2048 values of each column in every step of a statement, so wide batches come one by one. */
  readonly #wide = pLimit(1);
  readonly #idle: Session[] = [];

  constructor(database: Database, lanes: number) {
    this.#database = database;
    this.#limit = pLimit(lanes);
  }

  make(batch: SealedBatch): Promise<ConvertedPart> {
    const make = () => this.#limit(() => this.#make(batch));
    return batch.columns.length > wideColumns ? this.#wide(make) : make();
  }

  async #make(batch: SealedBatch): Promise<ConvertedPart> {
    const session = this.#idle.pop() ?? (await this.#database.connect());
    try {
      await this.#database.makeRoom(batch.columns.length);
      return await this.#database.onOneThread(() => convertOn(session, batch));
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
 * Makes a declared column text if a value does not fit its declared type, so that the value is kept as it came.
 * @param source SQL for rows with at least the given columns, as they were read from the spool
 */
export async function dropMismatchedTypes(
  session: Session,
  set: ColumnSet,
  source: (columns: readonly Column[]) => string,
): Promise<void> {
  const declared = set.list.filter((column) => column.type !== spooledType(column) && column.declared !== undefined);
  if (declared.length === 0) return;
  const counts = declared.map((column) => {
    const name = quoteIdentifier(column.name);
    return `count(*) FILTER (${name} <> '' AND (${misfits(name, column.type)})) AS ${name}`;
  });
  const [found] = await session.rows(`SELECT ${counts.join(', ')} FROM ${source(declared)}`);
  for (const column of declared) {
    if (Number(found?.[column.name] ?? 0) === 0) continue;
    set.undeclare(column);
  }
}

/** SQL for rows with the `kept` columns, from a `source` with the columns as they were `read` from the spool. */
export function convertedRows(read: ColumnSet, kept: ColumnSet, source: string): string {
  const values = kept.list.map(({ place, field, treatment }) => selected(read.get(place, field) as Column, treatment));
  return `SELECT ${values.join(', ')} FROM ${source}`;
}

async function convertOn(session: Session, batch: SealedBatch): Promise<ConvertedPart> {
  const { spool, records, maxRecordBytes, rules, key, number, files, compression, raw } = batch;
  const set = ColumnSet.restore(batch.columns);
  const source = (columns: readonly Column[]) => readSpool(columns, spool, maxRecordBytes);
  await dropMismatchedTypes(session, set, source);
  const kept = ColumnSet.restore(rules.keep(set.store()));
  const read = kept.list.map(({ place, field }) => set.get(place, field) as Column);
  const query = convertedRows(set, kept, source(read));
  const { rows, bytes, sha256 } = await writeParquet(session, query, files.path, {
    compression,
    keepsZeroSigns: holdNegativeZero(kept.store()),
  });
  if (rows !== records || (raw !== undefined && raw.length !== records * hashWords)) {
    throw new CdsyncError(`a part holds ${rows} rows, but its spool has ${records} records`, {
      code: 'conversion_failed',
      hint: 'run again; if it stays, report it with the version of cdsync',
    });
  }
  const keyed = { number, path: files.path, columns: kept.list, key };
  const keys = await writeKeys(session, keyed, files.keysPath, raw);
  return { rows, bytes, sha256, keys_sha256: keys.sha256, hash_version: keysVersion(), columns: kept.store() };
}

function conversionError(error: unknown): CdsyncError {
  const known = asCdsyncError(error);
  if (known.code !== 'database_failed') return known;
  return new CdsyncError('a batch of records could not be converted', {
    code: 'conversion_failed',
    hint: 'run again; if it stays, report it with the version of cdsync',
    cause: known.cause,
    causeQuotesValues: true,
  });
}

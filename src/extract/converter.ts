import pLimit from 'p-limit';
import { quoteIdentifier } from '../core/column-shape.js';
import { type Column, ColumnSet, type StoredColumn } from '../core/columns.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { type Database, type Session, sqlText } from '../store/duckdb.js';
import { type ParquetCompression, type ParquetFile, writeParquet } from '../store/parquet.js';
import { rowHash, rowKey, type TypedColumn } from '../store/row-hash.js';

/** What a batch of spooled records is and becomes. */
export interface ConversionTask {
  readonly spool: string;
  /** The longest record's bytes. */
  readonly maxRecordBytes: number;
  /** As they stood when the batch was sealed: every value in it fits them. */
  readonly columns: readonly StoredColumn[];
  /** Columns that make the key. */
  readonly key: readonly string[];
  /** Number of the part, which orders copies of one key. */
  readonly number: number;
  readonly part: string;
  readonly keys: string;
  readonly compression: ParquetCompression;
}

/** The type by which a column is read from what was spooled: what the scanner has made text is text. */
export function spooledType({ type, declared }: Column): string {
  return declared !== undefined || type === 'JSON' ? 'VARCHAR' : type;
}

function readSpool(columns: readonly Column[], spool: string, maxRecordBytes: number): string {
  const envelope = columns
    .filter(({ place }) => place === 'envelope')
    .map((column) => `${quoteIdentifier(column.name)}: ${sqlText(spooledType(column))}`);
  const attributes = columns
    .filter(({ place }) => place === 'attribute')
    .map((column) => `${quoteIdentifier(column.name)} ${spooledType(column)}`);
  if (attributes.length > 0) envelope.push(`attributes: ${sqlText(`STRUCT(${attributes.join(', ')})`)}`);
  const largest = Math.max(16_777_216, maxRecordBytes * 2);
  return `read_json(${sqlText(spool)}, format = 'array', records = true, columns = {${envelope.join(', ')}}, maximum_object_size = ${largest})`;
}

function selected(column: Column): string {
  const name = quoteIdentifier(column.name);
  const value = column.place === 'attribute' ? `attributes.${name}` : name;
  const needsCast = column.fileType !== spooledType(column);
  return needsCast ? `${value}::${column.fileType} AS ${name}` : `${value} AS ${name}`;
}

/** Rows of a part with what the diff needs: key, hash, and their place, which decides between copies of one key. */
export async function writeKeys(
  session: Session,
  task: { part: string; keys: string; number: number; columns: readonly TypedColumn[]; key: readonly string[] },
): Promise<void> {
  await writeParquet(
    session,
    `SELECT ${rowKey(task.key)} AS key, ${rowHash(task.columns)} AS hash, ${task.number}::INTEGER AS part,
       file_row_number::BIGINT AS row FROM read_parquet(${sqlText(task.part)}, file_row_number = true)`,
    task.keys,
    'snappy',
  );
}

/** A part, and the columns it really has. */
export interface ConvertedPart extends ParquetFile {
  readonly columns: readonly StoredColumn[];
}

/** Turns spooled batches into Parquet parts, off the main thread, at most `lanes` at once in the whole process. */
export class Converter {
  readonly #database: Database;
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #idle: Session[] = [];

  constructor(database: Database, lanes: number) {
    this.#database = database;
    this.#limit = pLimit(lanes);
  }

  /**
   * The part and its keys, both safe on disk (the keys may be computed again).
   * @throws {CdsyncError} `conversion_failed`, `disk_full`
   */
  convert(task: ConversionTask): Promise<ConvertedPart> {
    return this.#limit(async () => {
      const session = this.#idle.pop() ?? (await this.#database.connect());
      try {
        return await convertOn(session, task);
      } catch (error) {
        throw conversionError(error);
      } finally {
        this.#idle.push(session);
      }
    });
  }

  close(): void {
    for (const session of this.#idle.splice(0)) session.close();
  }
}

/** Takes the declared type from the columns with a value that does not fit it: what came is kept, as text. */
export async function undeclareMisfits(session: Session, set: ColumnSet, source: string): Promise<void> {
  const declared = set.list.filter((column) => column.type !== spooledType(column) && column.declared !== undefined);
  if (declared.length === 0) return;
  const counts = declared.map((column) => {
    const name = quoteIdentifier(column.name);
    return `count(*) FILTER (${name} IS NOT NULL AND TRY_CAST(${name} AS ${column.type}) IS NULL) AS ${name}`;
  });
  const [misfits] = await session.rows(`SELECT ${counts.join(', ')} FROM ${source}`);
  for (const column of declared) {
    if (Number(misfits?.[column.name] ?? 0) === 0) continue;
    column.declared = undefined;
    set.reshaped(column);
  }
}

/** SQL for the rows that records become, `source` giving them as they were spooled. */
export function convertedRows(columns: readonly Column[], source: string): string {
  return `SELECT ${columns.map(selected).join(', ')} FROM ${source}`;
}

async function convertOn(session: Session, task: ConversionTask): Promise<ConvertedPart> {
  const set = ColumnSet.restore(task.columns);
  const source = () => readSpool(set.list, task.spool, task.maxRecordBytes);
  await undeclareMisfits(session, set, source());
  const query = convertedRows(set.list, source());
  const file = await writeParquet(session, query, task.part, task.compression);
  await writeKeys(session, { ...task, columns: set.list });
  return { ...file, columns: set.store() };
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

import pLimit from 'p-limit';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { quoteIdentifier, sqlText } from '../../core/sql.js';
import type { ColumnRules } from '../../rows/column-rules.js';
import { type Column, ColumnSet, type ColumnTreatment, type StoredColumn } from '../../rows/columns.js';
import { misfits, treated } from '../../rows/value-text.js';
import type { Database, Session } from '../../store/duckdb.js';
import { writeKeys } from '../../store/keys-file.js';
import { type ParquetCompression, type ParquetFile, writeParquet } from '../../store/parquet.js';

/** What a batch of spooled records is and becomes. */
export interface ConversionTask {
  readonly spool: string;
  /** The longest record's bytes. */
  readonly maxRecordBytes: number;
  /** As they stood when the batch was sealed: every value in it fits them. */
  readonly columns: readonly StoredColumn[];
  readonly rules: ColumnRules;
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

/** What of a spooled column is kept. */
function selected(column: Column, treatment: ColumnTreatment | undefined): string {
  const name = quoteIdentifier(column.name);
  const value = column.place === 'attribute' ? `attributes.${name}` : name;
  if (treatment?.hash !== undefined || treatment?.mask !== undefined) {
    const type = spooledType(column);
    const isText = column.type === 'JSON' && column.declared === undefined;
    return `${treated(isText ? `${value}::JSON` : value, isText ? column : { ...column, type }, treatment)} AS ${name}`;
  }
  const needsCast = column.fileType !== spooledType(column);
  return needsCast ? `${value}::${column.fileType} AS ${name}` : `${value} AS ${name}`;
}

/** A part, and the columns it really has. */
export interface ConvertedPart extends ParquetFile {
  /** Checksum of its keys file. */
  readonly keysSha256: string;
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

/** Makes text of the columns with a value that does not fit their declared type: what came is kept. */
export async function undeclareMisfits(session: Session, set: ColumnSet, source: string): Promise<void> {
  const declared = set.list.filter((column) => column.type !== spooledType(column) && column.declared !== undefined);
  if (declared.length === 0) return;
  const counts = declared.map((column) => {
    const name = quoteIdentifier(column.name);
    const value = column.place === 'attribute' ? `attributes.${name}` : name;
    return `count(*) FILTER (${value} IS NOT NULL AND (${misfits(value, column.type)})) AS ${name}`;
  });
  const [found] = await session.rows(`SELECT ${counts.join(', ')} FROM ${source}`);
  for (const column of declared) {
    if (Number(found?.[column.name] ?? 0) === 0) continue;
    column.declared = 'VARCHAR';
    set.reshaped(column);
  }
}

/** SQL for the rows that are `kept` of records, `source` giving them as they were `read` and spooled. */
export function convertedRows(read: ColumnSet, kept: ColumnSet, source: string): string {
  const values = kept.list.map(({ place, field, treatment }) => selected(read.get(place, field) as Column, treatment));
  return `SELECT ${values.join(', ')} FROM ${source}`;
}

async function convertOn(session: Session, task: ConversionTask): Promise<ConvertedPart> {
  const set = ColumnSet.restore(task.columns);
  const all = readSpool(set.list, task.spool, task.maxRecordBytes);
  await undeclareMisfits(session, set, all);
  const kept = ColumnSet.restore(task.rules.keep(set.store()));
  const read = kept.list.map(({ place, field }) => set.get(place, field) as Column);
  const query = convertedRows(set, kept, readSpool(read, task.spool, task.maxRecordBytes));
  const file = await writeParquet(session, query, task.part, task.compression);
  const { number, key } = task;
  const { sha256: keysSha256 } = await writeKeys(
    session,
    { number, path: task.part, columns: kept.list, key },
    task.keys,
  );
  return { ...file, keysSha256, columns: kept.store() };
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

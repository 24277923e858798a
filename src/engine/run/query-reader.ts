import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ColumnRules } from '../../columns/column-rules.js';
import { emptyShape } from '../../columns/column-shape.js';
import { ColumnSet, isMasked, maskOf, type StoredColumn } from '../../columns/columns.js';
import { maskedValueSql } from '../../columns/masked-value.js';
import { mergeTextFormats, plainText } from '../../columns/text-code.js';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import { fileText, quoteIdentifier } from '../../core/sql.js';
import type { ReadResult } from '../../extract/read-result.js';
import { streamType } from '../../sdk/column-type.js';
import { inferTextFormats } from '../../snapshot/infer-text-formats.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Session } from '../../storage/duckdb.js';
import { type Counters, noCounters } from '../../storage/journal.js';
import { type ParquetCompression, type ParquetFile, type ParquetForm, writeParquet } from '../../storage/parquet.js';
import { keysVersion, type Part, partFiles, writeKeys } from '../../storage/part.js';
import { noUnchangedRows } from '../../storage/unchanged-rows.js';
import type { GuardFinding } from '../report-job.js';
import { asSubquery, streamQueryError } from './query-columns.js';
import { type QueryTraits, queryTraits } from './query-traits.js';
import type { StreamReader } from './stream-reader.js';

/** A stream that a query reads. */
export interface QueryInput {
  /** Columns that make its key. */
  readonly key: readonly string[];
  /** Which rows: the run that last changed them; empty for none. */
  readonly version: string;
  /** SQL for the rows, if only this query sees them under the name; otherwise they are a view of it. */
  readonly rows?: string;
  /** What holds the stream because of these rows. */
  readonly finding?: GuardFinding | undefined;
}

/** The streams that a query reads, by name. */
export type QueryInputs = ReadonlyMap<string, QueryInput>;

interface QueryReaderOptions {
  readonly config: Pick<StreamConfig, 'name' | 'reads'>;
  /** Shows the streams that the query names. */
  readonly session: Session;
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
  /** Columns of the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  readonly rules: ColumnRules;
  readonly monotonic: () => number;
  readonly inputs: QueryInputs;
  /** Of the query and of all that shapes its rows. */
  readonly fingerprint: string;
  /** The last snapshot, if it may stay as it is; undefined if the query must run. */
  readonly previous: StreamState | undefined;
  /** Runs `work` with one thread. */
  readonly oneThread: <T>(work: () => Promise<T>) => Promise<T>;
}

interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** Parquet has no integers of 128 bits, which DuckDB would write as doubles, no unions, variants and lists of one length. */
function storableType(type: string): string {
  const isOther = /\b(UNION|VARIANT)\b|\[\d+\]/.test(type.replaceAll(/"(?:[^"]|"")*"|'[^']*'/g, ''));
  const parts = (isOther ? streamType(type) : type).split(/("(?:[^"]|"")*")/);
  return parts
    .map((part, index) => (index % 2 === 1 ? part : part.replace(/\bU?HUGEINT\b/g, 'DECIMAL(38,0)')))
    .join('');
}

/**
 * Reads the rows of a query over other streams. If all of them are as they were for the last snapshot, so are its rows, and the query
 * is not run. Otherwise a result that depends on an order is made from sorted streams by one thread, so that what did not change in
 * them changes nothing: a sum of doubles is another in another order.
 */
export class QueryReader implements StreamReader {
  readonly resumed = false;
  readonly coverage: StreamReader['coverage'];
  readonly covered = undefined;
  readonly confirmable = undefined;
  readonly live = { ...noCounters };
  readonly key: readonly string[];
  readonly #options: QueryReaderOptions;
  readonly #query: string;
  readonly reading: NonNullable<StreamReader['reading']>;
  #result: ReadResult | undefined;

  constructor(options: QueryReaderOptions) {
    this.#options = options;
    this.key = options.config.reads.key;
    this.coverage = options.config.reads.coverage;
    const { inputs, fingerprint } = options;
    this.reading = {
      fingerprint,
      inputs: Object.fromEntries([...inputs].map(([name, { version }]) => [name, version])),
    };
    const { query } = options.config.reads;
    if (query === undefined) throw new TypeError(`stream ${options.config.name} is not a query`);
    this.#query = asSubquery(query);
  }

  counters(): Counters {
    return this.live;
  }

  /** @throws {CdsyncError} `sql_failed`, `key_missing`, `key_not_unique` */
  async read(): Promise<void> {
    const { session, folder, compression, monotonic, rules, config, inputs, oneThread } = this.#options;
    const began = monotonic();
    const traits = await queryTraits(session, { name: config.name, query: this.#query }, inputs.keys());
    const unchanged = this.#unchanged(traits);
    if (unchanged !== undefined) {
      this.#keep(unchanged);
      return;
    }
    const all = await this.#describe();
    const resultColumns = all.filter(({ name }) => rules.of('envelope', name)?.drop !== true);
    const columns = await this.#columns(resultColumns);
    await mkdir(join(folder, 'parts'), { recursive: true, mode: 0o700 });
    const number = 1;
    const { path, keysPath } = partFiles(join(folder, 'parts'), number);
    const selected = resultColumns.map(({ name, type }) => {
      const column = columns.columnFor('envelope', name);
      const value = quoteIdentifier(name);
      const kept = isMasked(column.rule)
        ? maskedValueSql(value, { type, shape: emptyShape() }, { ...column.rule })
        : `${value}::${column.type}`;
      return `${kept} AS ${quoteIdentifier(column.name)}`;
    });
    // Only its result shows whether a query returns -0.0.
    const keepsZeroSigns = resultColumns.some(({ type }) => type.includes('DOUBLE'));
    const query = `${this.#inputs(traits.dependsOnOrder)} SELECT ${selected.join(', ')} FROM (${this.#query})`;
    const form = { compression, keepsZeroSigns };
    const write = () => writeParquet(session, query, path, form);
    const written = await this.#ask(() => (traits.dependsOnOrder ? oneThread(write) : write()));
    const file = (await this.#typed(columns, resultColumns, written, form)) ?? written;
    // The file has only the columns of the query. Earlier columns that it lacks are NULL in the snapshot.
    const selectedNames = new Set(resultColumns.map(({ name }) => name));
    const inFile = columns.store().filter(({ field }) => selectedNames.has(field));
    const { list } = ColumnSet.restore(inFile);
    const keys = await writeKeys(session, { number, path: file.path, columns: list, key: this.key }, keysPath);
    await this.#checkKeys(file.path, keysPath);
    this.live.read = file.rows;
    this.live.kept = file.rows;
    this.live.milliseconds = Math.round(monotonic() - began);
    const made: Part = {
      ...file,
      number,
      segments: [],
      rejects: 0,
      columns: inFile,
      keysPath,
      keys_sha256: keys.sha256,
      hash_version: keysVersion(),
    };
    this.#result = {
      parts: file.rows === 0 ? [] : [made],
      columns: columns.store(),
      leftOut: all
        .filter((column) => !resultColumns.includes(column))
        .map(({ name }) => ({ place: 'envelope', field: name })),
      counters: this.live,
      dropped: [],
      unchangedRows: noUnchangedRows,
      rejects: [],
    };
  }

  async extracted(): Promise<ReadResult> {
    if (this.#result === undefined) throw new Error('the query was not run');
    return this.#result;
  }

  async close(): Promise<void> {}

  /** The last snapshot, if the query would return its rows again; undefined if that is not certain. */
  #unchanged({ varying, readsOthers }: QueryTraits): StreamState | undefined {
    const { previous } = this.#options;
    const before = previous?.reading;
    if (before === undefined || varying.length > 0 || readsOthers) return undefined;
    // An erasure changes the snapshot and leaves the note of the reading.
    const isSame = isDeepStrictEqual(before, { ...this.reading, run_id: previous?.run_id });
    return isSame ? previous : undefined;
  }

  #keep({ rows, columns }: StreamState): void {
    this.live.read = rows;
    this.live.kept = rows;
    // No file of keys is needed where every row is unchanged.
    const cachedRows = { keysPath: join(this.#options.folder, 'unchanged.keys'), rows, unseenPath: null };
    this.#result = {
      parts: [],
      columns,
      leftOut: [],
      counters: this.live,
      dropped: [],
      unchangedRows: { records: rows, known: cachedRows },
      rejects: [],
    };
  }

  /** A WITH clause for the streams that the query does not read as they are: sorted by their keys, or as they were. */
  #inputs(isSorted: boolean): string {
    const read = [...this.#options.inputs].filter(([, { rows }]) => isSorted || rows !== undefined);
    const named = read.map(([name, { key, rows }]) => {
      const quoted = quoteIdentifier(name);
      const order = isSorted ? ` ORDER BY ${key.map(quoteIdentifier).join(', ')}` : '';
      return `${quoted} AS NOT MATERIALIZED (FROM ${rows === undefined ? `temp.${quoted}` : `(${rows})`}${order})`;
    });
    return named.length === 0 ? '' : `WITH ${named.join(', ')}`;
  }

  /**
   * Infers the formats of text columns, and writes the file again if they can be typed values.
   * @returns undefined if the file stays as it is
   */
  async #typed(
    columns: ColumnSet,
    resultColumns: readonly ResultColumn[],
    { path }: ParquetFile,
    form: ParquetForm,
  ): Promise<ParquetFile | undefined> {
    const { session, rules, columns: before = [] } = this.#options;
    const rows = `read_parquet(${fileText(path)})`;
    const all = resultColumns.map(({ name }) => columns.columnFor('envelope', name));
    const open = all.filter(({ place, field, type }) => type === 'VARCHAR' && rules.infersFormat(place, field));
    const names = open.map(({ name }) => name);
    const forms = await inferTextFormats(session, rows, names);
    for (const column of open) {
      const knownColumn = before.find(({ field }) => field === column.field);
      const earlier = knownColumn === undefined ? undefined : (knownColumn.text ?? plainText);
      column.text = mergeTextFormats(earlier, forms.get(column.name));
      columns.reshaped(column);
    }
    if (open.every((column) => column.form === undefined)) return undefined;
    const values = all.map((column) => {
      const value = quoteIdentifier(column.name);
      return `${column.form?.typed(value, 'file') ?? value} AS ${value}`;
    });
    const typedPath = path.replace(/\.parquet$/, '.typed.parquet');
    return writeParquet(session, `SELECT ${values.join(', ')} FROM ${rows}`, typedPath, form);
  }

  async #ask<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw streamQueryError(error, this.#options.config.name, await this.#readable());
    }
  }

  /** Names of the columns that the query can read. */
  async #readable(): Promise<string[]> {
    const { session, inputs } = this.#options;
    const views = [...inputs].filter(([, { rows }]) => rows === undefined).map(([name]) => name);
    const described = views.map((name) => session.rows(`DESCRIBE FROM ${quoteIdentifier(name)}`).catch(() => []));
    const names = (await Promise.all(described)).flat().map(({ column_name }) => String(column_name));
    return [...new Set(names)];
  }

  async #describe(): Promise<ResultColumn[]> {
    const { session } = this.#options;
    const described = `DESCRIBE ${this.#inputs(false)} FROM (${this.#query})`;
    const rows = await this.#ask(() => session.rows(described));
    const columns = rows.map((row) => ({ name: String(row.column_name), type: storableType(String(row.column_type)) }));
    const names = columns.map(({ name }) => name.toLowerCase());
    const twice = columns.find(({ name }, index) => names.indexOf(name.toLowerCase()) !== index);
    if (twice !== undefined)
      throw this.#invalid(`two columns of the query are called "${twice.name}"`, 'give one another name with AS');
    for (const field of this.key) {
      if (columns.some(({ name }) => name === field)) continue;
      const names = columns.map(({ name }) => name).join(', ');
      throw this.#invalid(`the query has no column "${field}" for its key`, `its columns: ${names}`);
    }
    return columns;
  }

  #invalid(message: string, hint: string): CdsyncError {
    return new CdsyncError(message, { code: 'sql_failed', stream: this.#options.config.name, hint });
  }

  /** Columns whose types hold both the present values and those of the last snapshot. */
  async #columns(resultColumns: readonly ResultColumn[]): Promise<ColumnSet> {
    const { rules, columns: before = [] } = this.#options;
    const columns = ColumnSet.restore(before.filter(({ field }) => rules.of('envelope', field)?.drop !== true));
    for (const { name, type } of resultColumns) {
      const rule = rules.of('envelope', name);
      const knownColumn = columns.get('envelope', name);
      const column = knownColumn ?? columns.columnFor('envelope', name);
      const wasMasked = knownColumn?.rule !== undefined;
      column.untracked = rule?.track === false;
      // Texts are written as such first; their formats are inferred from the file.
      column.text = undefined;
      column.rule = maskOf(rule);
      const rawType = column.rule === undefined ? type : 'VARCHAR';
      const declared = wasMasked || column.rule !== undefined ? undefined : knownColumn?.declared;
      column.declared =
        declared === undefined || declared === rawType ? rawType : await this.#commonType(declared, rawType);
      columns.reshaped(column);
    }
    return columns;
  }

  async #commonType(before: string, current: string): Promise<string> {
    const both = `SELECT NULL::${before} AS value UNION ALL SELECT NULL::${current}`;
    const common = await this.#options.session
      .rows(`SELECT column_type FROM (DESCRIBE ${both})`)
      .then(([row]) => storableType(String(row?.column_type)))
      .catch(() => 'VARCHAR');
    return common;
  }

  /** No part of a key may be NULL: no table of a destination takes such a row. */
  async #checkKeys(rows: string, keys: string): Promise<void> {
    const isMissing = this.key.map((name) => `${quoteIdentifier(name)} IS NULL`).join(' OR ');
    const [row] = await this.#options.session.rows(
      `SELECT (SELECT count(*) FROM read_parquet(${fileText(rows)}) WHERE ${isMissing}) AS missing,
         count(key) - count(DISTINCT key) AS twice FROM read_parquet(${fileText(keys)})`,
    );
    const named = this.key.join(', ');
    const details = { stream: this.#options.config.name, hint: 'choose a unique key' };
    if (Number(row?.missing) > 0) {
      throw new CdsyncError(`the query has ${formatCounted(Number(row?.missing), 'row')} without ${named}`, {
        code: 'key_missing',
        ...details,
      });
    }
    if (Number(row?.twice) > 0) {
      const message = `the query has ${formatCounted(Number(row?.twice), 'row')} with the ${named} of another row`;
      throw new CdsyncError(message, { code: 'key_not_unique', ...details });
    }
  }
}

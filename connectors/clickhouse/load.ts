import { createHash, randomUUID } from 'node:crypto';
import {
  type ChecksumColumn,
  type ColumnSum,
  type ColumnType,
  columnSums,
  countDiffers,
  type DestinationContext,
  isThisMachine,
  type Load,
  loadRefused,
  plaintextRefused,
  type SchemaChange,
  type SummedColumn,
  sameWatermark,
  type TableDescription,
  type TableDestination,
  type TargetTable,
  type Watermark,
  watermarkFrom,
  watermarkMoved,
  watermarkTable,
} from '../../src/sdk/index.js';
import type { clickhouseOptions } from './options.js';
import { Session } from './session.js';
import { columnDefinition, deletedColumn, described, identifier, versionColumn } from './types.js';

const watermarks = identifier(watermarkTable);
/** How many insert tokens a table remembers, so that a repeated insert counts once. */
const deduplication = 'SETTINGS non_replicated_deduplication_window = 1000';
const own = `${versionColumn} UInt64 DEFAULT 0, ${deletedColumn} UInt8 DEFAULT 0`;
/** Reads only the last row of each key, from a table that keeps one row of each. */
const final = { final: 1 } as const;
const never = new AbortController().signal;

function names(columns: readonly { readonly name: string }[]): string {
  return columns.map(({ name }) => identifier(name)).join(', ');
}

/** The watermark of a stream, with the number of the load that moved it there. */
interface Mark {
  readonly watermark: Watermark;
  readonly version: number;
}

interface FoundTable {
  readonly engine: string;
  readonly keepsLast: boolean;
}

/** Tables of one database. */
class ClickhouseDestination implements TableDestination {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  async watermarks(): Promise<Watermark[]> {
    // Create it only if it is missing: a user may load tables without the right to create them.
    if ((await this.#find(watermarkTable)) === undefined) {
      await this.#session.run(`CREATE TABLE IF NOT EXISTS ${watermarks} (destination String, stream String,
        table_name String, store_id String, sequence Int64, definition String, delivered_at String,
        ${versionColumn} UInt64) ENGINE = ReplacingMergeTree(${versionColumn}) ORDER BY (destination, stream)`);
    }
    return (await this.#marks()).map(({ watermark }) => watermark);
  }

  async #marks(): Promise<Mark[]> {
    const rows = await this.#session.rows(`SELECT * FROM ${watermarks}`, {}, final);
    return rows.map((row) => ({
      watermark: watermarkFrom(row),
      version: Number(row[versionColumn]),
    }));
  }

  async #find(table: string): Promise<FoundTable | undefined> {
    const query = `SELECT engine, engine_full FROM system.tables
      WHERE database = currentDatabase() AND name = {table:String}`;
    const [found] = await this.#session.rows(query, { table });
    if (found === undefined) return undefined;
    const full = String(found.engine_full);
    const keepsLast = new RegExp(`Replacing.*\\(.*${versionColumn}, ${deletedColumn}\\)`).test(full);
    return { engine: String(found.engine), keepsLast };
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const found = await this.#find(table);
    if (found === undefined) return undefined;
    if (!/MergeTree$/.test(found.engine)) {
      throw loadRefused(`"${table}" has the engine ${found.engine}, which cdsync does not load`, {
        hint: 'give the stream another table with `table:`',
      });
    }
    const rows = await this.#session.rows(
      `SELECT name, type, is_in_sorting_key AS key FROM system.columns
       WHERE database = currentDatabase() AND table = {table:String} ORDER BY position`,
      { table },
    );
    const columns = rows
      .filter(({ name }) => name !== versionColumn && name !== deletedColumn)
      .map(({ name, type, key }) => ({ name: String(name), type: described(String(type), Number(key) === 1) }));
    const filled = `SELECT count() FROM (SELECT 1 FROM ${identifier(table)} LIMIT 1)`;
    return { columns, isEmpty: (await this.#session.number(filled, {}, final)) === 0 };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = identifier(table.name);
    if (change.type === 'create') {
      await this.#session.run(`CREATE TABLE IF NOT EXISTS ${target} ${definition(table)}`);
    } else if (change.type === 'add_columns') {
      const added = change.columns.map((column) => `ADD COLUMN IF NOT EXISTS ${columnDefinition(column, false)}`);
      await this.#session.run(`ALTER TABLE ${target} ${added.join(', ')}`);
    } else {
      const column = columnDefinition(change.column, await this.#isSortedBy(table.name, change.column.name));
      await this.#session.run(`ALTER TABLE ${target} MODIFY COLUMN ${column}`);
    }
  }

  /** Whether a column is in the sorting key, and so not nullable. In a table that others have made, a key column may be nullable. */
  async #isSortedBy(table: string, column: string): Promise<boolean> {
    const query = `SELECT count() FROM system.columns WHERE database = currentDatabase()
      AND table = {table:String} AND name = {column:String} AND is_in_sorting_key`;
    return (await this.#session.number(query, { table, column })) === 1;
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const query = `SELECT 1 FROM ${identifier(table)} WHERE ${identifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#session.number(`SELECT count() FROM (${query})`, {}, final)) === 0;
  }

  async load(load: Load): Promise<void> {
    load.signal.throwIfAborted();
    this.#session.use(load.signal);
    await this.#session.stopOthers();
    const reached = await this.#reached(load);
    const { action, table, data } = load;
    const attempt = new Attempt(this.#session, load, reached);
    // The table is empty, or must end up with these rows only: fill a new table, then swap the two at once.
    if (action.type === 'replace' || (action.type === 'append' && table.key.length > 0)) {
      const isAsItShould = (await this.#engineProblem(table)) === undefined;
      await attempt.exchange(data, isAsItShould ? `AS ${identifier(table.name)}` : definition(table));
    } else {
      const problem = await this.#engineProblem(table);
      if (problem !== undefined) throw loadRefused(problem, { hint: 'give the stream another table with `table:`' });
      await attempt.merge(data, action.type === 'merge' ? action.absent : 'keep');
    }
    await this.#reached(load);
    await this.#move(load, attempt.version);
  }

  /** The number of the load that moved the watermark last. @throws {CdsyncError} if the watermark has moved since the plan */
  async #reached({ before, after, stream }: Load): Promise<number> {
    const mark = (await this.#marks()).find(
      ({ watermark }) => watermark.destination === after.destination && watermark.stream === after.stream,
    );
    if (!sameWatermark(mark?.watermark, before)) throw watermarkMoved(stream);
    return mark?.version ?? 0;
  }

  async #engineProblem({ name, key }: TargetTable): Promise<string | undefined> {
    const found = await this.#find(name);
    if (found === undefined || found.keepsLast === key.length > 0) return undefined;
    return found.keepsLast
      ? `table "${name}" keeps one row of each key; mode append needs a table that keeps all rows`
      : `table "${name}" has the engine ${found.engine}; this mode needs ReplacingMergeTree(${versionColumn}, ${deletedColumn})`;
  }

  async #move({ after }: Load, version: number): Promise<void> {
    const { destination, stream, table, storeId, sequence, definition: defined, deliveredAt } = after;
    await this.#session.run(
      `INSERT INTO ${watermarks} SELECT {destination:String}, {stream:String}, {table:String}, {store:String},
        {sequence:Int64}, {defined:String}, {delivered:String}, {version:UInt64}`,
      { destination, stream, table, store: storeId, sequence, defined, delivered: deliveredAt, version },
      { insert_deduplication_token: randomUUID() },
    );
  }

  count(table: string, live: boolean): Promise<number> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return this.#session.number(`SELECT count() FROM ${identifier(table)}${where}`, {}, final);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const query = `SELECT ${selected} FROM ${identifier(table)}${where}`;
      const [row] = await this.#session.rows(query, {}, final);
      return row;
    });
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

function summed({ name, of }: ChecksumColumn): SummedColumn {
  const value = identifier(name);
  const text = checkedText(value, of.kind);
  const number = `reinterpretAsUInt32(reverse(substring(MD5(assumeNotNull(${text})), 1, 4)))`;
  return { name, value, sum: text === undefined ? undefined : `toString(sumIf(${number}, isNotNull(${value})))` };
}

function checkedText(column: string, kind: ColumnType['kind']): string | undefined {
  if (kind === 'timestamp') return `toString(toUnixTimestamp64Micro(${column}))`;
  const isCounted = kind === 'double' || kind === 'decimal' || kind === 'json' || kind === 'list' || kind === 'struct';
  return isCounted ? undefined : `toString(${column})`;
}

/** Columns and engine of a table. With a key, the engine keeps the last row of each key. */
function definition({ columns, key }: TargetTable): string {
  const parts = columns.map((column) => columnDefinition(column, key.includes(column.name)));
  const engine =
    key.length > 0
      ? `ReplacingMergeTree(${versionColumn}, ${deletedColumn}) ORDER BY (${key.map(identifier).join(', ')})`
      : 'MergeTree ORDER BY tuple()';
  return `(${parts.join(', ')}, ${own}) ENGINE = ${engine} ${deduplication}`;
}

/** One attempt at a load. Its rows get a number that no earlier attempt has used. */
class Attempt {
  readonly #session: Session;
  readonly #load: Load;
  readonly #reached: number;
  readonly #target: string;
  readonly #beside: string;
  readonly #id = randomUUID();
  /** The highest number that it has given to rows. */
  version: number;

  /** @param reached the number of the last load that was finished */
  constructor(session: Session, load: Load, reached: number) {
    this.#session = session;
    this.#load = load;
    this.#reached = reached;
    this.version = reached;
    const { name } = load.table;
    this.#target = identifier(name);
    this.#beside = `_cdsync_new_${createHash('sha256').update(name).digest('hex').slice(0, 16)}`;
  }

  /** Each attempt has its own tokens: rows of an earlier attempt may have been removed since, and must be inserted again. */
  #token(part: string | number): string {
    return `${this.#load.id}-${this.#id}-${part}`;
  }

  async #withTable(made: string, work: () => Promise<void>): Promise<void> {
    const table = identifier(this.#beside);
    await this.#session.run(`DROP TABLE IF EXISTS ${table} SYNC`);
    try {
      await this.#session.run(`CREATE TABLE ${table} ${made}`);
      await work();
    } finally {
      // Drop it even after a stop, so that no personal data stays behind.
      this.#session.use(never);
      await this.#session.run(`DROP TABLE IF EXISTS ${table} SYNC`).catch(() => undefined);
      this.#session.use(this.#load.signal);
    }
  }

  async #receive(data: Load['data']): Promise<void> {
    const columns = data.columns.map(({ name }) => name);
    let index = 0;
    for await (const { path } of data.files()) {
      await this.#session.insertFile(this.#beside, columns, path, this.#token(index));
      index += 1;
    }
    const arrived = await this.#session.number(`SELECT count() FROM ${identifier(this.#beside)}`);
    if (arrived !== data.handedOver) throw countDiffers('the table', data.handedOver, arrived);
  }

  /** Fills a new table and swaps it with the old one. @param made SQL after `CREATE TABLE <name>` for the new table */
  async exchange(data: Load['data'], made: string): Promise<void> {
    this.version += 1;
    await this.#withTable(made, async () => {
      await this.#receive(data);
      await this.#session.run(`EXCHANGE TABLES ${this.#target} AND ${identifier(this.#beside)}`);
    });
  }

  /** Loads the rows into a staging table first, and from there into the table by one statement. */
  async merge(data: Load['data'], absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const { key } = this.#load.table;
    const staged = data.columns.map(({ name, targetType: type }) =>
      columnDefinition({ name, type }, key.includes(name)),
    );
    await this.#withTable(`(${staged.join(', ')}) ENGINE = MergeTree ORDER BY tuple() ${deduplication}`, async () => {
      await this.#receive(data);
      const highest = await this.#session.number(`SELECT max(${versionColumn}) FROM ${this.#target}`);
      this.version = Math.max(this.#reached, highest) + 1;
      if (key.length > 0) await this.#upsert(absent);
      else await this.#append(highest);
    });
  }

  async #append(highest: number): Promise<void> {
    const { columns } = this.#load.table;
    // Remove the rows of a load that was cut short.
    if (highest > this.#reached)
      await this.#session.run(`DELETE FROM ${this.#target} WHERE ${versionColumn} > {reached:UInt64}`, {
        reached: this.#reached,
      });
    await this.#insert(names(columns), `${names(columns)}, {version:UInt64}, 0`, `FROM ${identifier(this.#beside)}`);
  }

  async #upsert(absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const { columns, key } = this.#load.table;
    // A deleted row keeps only its key.
    const values = columns.map(({ name }) => {
      const value = identifier(name);
      return key.includes(name) ? value : `if(_op = 'delete', NULL, ${value})`;
    });
    const selected = `${values.join(', ')}, {version:UInt64}, _op = 'delete'`;
    await this.#insert(names(columns), selected, `FROM ${identifier(this.#beside)}`);
    if (absent === 'keep') return;
    await this.#end(absent);
  }

  /** Deletes or marks the rows whose keys are not among the load's. */
  async #end(absent: 'delete' | 'mark'): Promise<void> {
    const older = `FROM ${this.#target} FINAL WHERE ${versionColumn} < {older:UInt64}`;
    const values = { older: this.version };
    this.version += 1;
    if (absent === 'mark') return this.#mark(older, values);
    const keys = this.#load.table.key.map(identifier).join(', ');
    await this.#insert(keys, `${keys}, {version:UInt64}, 1`, older, values);
  }

  async #mark(older: string, values: { readonly older: number }): Promise<void> {
    const moment = "parseDateTime64BestEffort({deliveredAt:String}, 6, 'UTC')";
    await this.#session.run(
      `INSERT INTO ${this.#target} SELECT * REPLACE (${moment} AS _deleted_at, {version:UInt64} AS ${versionColumn})
       FROM (SELECT * ${older} AND _deleted_at IS NULL)`,
      { ...values, version: this.version, deliveredAt: this.#load.deliveredAt },
      { insert_deduplication_token: this.#token('marked') },
    );
  }

  async #insert(into: string, selected: string, from: string, values = {}): Promise<void> {
    await this.#session.run(
      `INSERT INTO ${this.#target} (${into}, ${versionColumn}, ${deletedColumn}) SELECT ${selected} ${from}`,
      { ...values, version: this.version },
      { insert_deduplication_token: this.#token(this.version) },
    );
  }
}

/** Opens the destination. It connects with the first statement. */
/** @throws {CdsyncError} `destination_plaintext` */
export function clickhouseSession({
  options,
  destination,
  job,
  signal,
}: DestinationContext<typeof clickhouseOptions>): Session {
  const { protocol, hostname } = new URL(options.url);
  if (protocol === 'http:' && options.password !== undefined && !options.allowHttp && !isThisMachine(hostname))
    throw plaintextRefused(
      hostname,
      'the password and all rows',
      'use https:// (port 8443); or, if the way there is safe, allow it with `allow_http: true`',
    );
  return new Session(options, `cdsync-${job}-${destination}`, signal);
}

export async function openClickhouse(context: DestinationContext<typeof clickhouseOptions>): Promise<TableDestination> {
  return new ClickhouseDestination(clickhouseSession(context));
}

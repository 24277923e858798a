import { randomUUID } from 'node:crypto';
import {
  type ChecksumColumn,
  type ColumnSum,
  type ColumnType,
  columnSums,
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
import { Attempt, definition } from './attempt.js';
import type { clickhouseOptions } from './options.js';
import { Session } from './session.js';
import { columnDefinition, deletedColumn, described, identifier, literal, versionColumn } from './types.js';
import { isUnfinished, withoutUnfinished, withUnfinished } from './unfinished.js';

const watermarks = identifier(watermarkTable);
/** Reads only the last row of each key, from a table that keeps one row of each. */
const final = { final: 1 } as const;

/** The watermark of a stream, with the number of the load that moved it there. */
interface Mark {
  readonly watermark: Watermark;
  readonly version: number;
}

interface FoundTable {
  readonly engine: string;
  readonly keepsLast: boolean;
  readonly comment: string;
}

/** Tables of one database. */
class ClickhouseDestination implements TableDestination {
  readonly #session: Session;
  readonly #destination: string;

  /** @param destination its name */
  constructor(session: Session, destination: string) {
    this.#session = session;
    this.#destination = destination;
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
    const query = `SELECT engine, engine_full, comment FROM system.tables
      WHERE database = currentDatabase() AND name = {table:String}`;
    const [found] = await this.#session.rows(query, { table });
    if (found === undefined) return undefined;
    const full = String(found.engine_full);
    const keepsLast = new RegExp(`Replacing.*\\(.*${versionColumn}, ${deletedColumn}\\)`).test(full);
    return { engine: String(found.engine), keepsLast, comment: String(found.comment) };
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
    return { columns, isEmpty: await this.#isEmpty(table, found) };
  }

  /** Rows of a first load that was cut short do not count: the next load replaces them. */
  async #isEmpty(table: string, { comment }: FoundTable): Promise<boolean> {
    const filled = `SELECT count() FROM (SELECT 1 FROM ${identifier(table)} LIMIT 1)`;
    if ((await this.#session.number(filled, {}, final)) === 0) return true;
    if (!isUnfinished(comment, this.#destination)) return false;
    return !(await this.#marks()).some(({ watermark }) => watermark.table === table);
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
    const found = await this.#find(table.name);
    const problem = engineProblem(table, found);
    const comment = withoutUnfinished(found?.comment ?? '');
    // A stream that got another `table:` has a watermark of the one before.
    const isFirst = load.before?.table !== table.name && action.type === 'append';
    const during = isFirst ? withUnfinished(comment, this.#destination) : comment;
    // The table is empty, or must end up with these rows only: fill a new table, then swap the two at once.
    if (action.type === 'replace' || (action.type === 'append' && table.key.length > 0)) {
      const like = problem === undefined ? `AS ${identifier(table.name)}` : definition(table);
      await attempt.exchange(data, `${like} COMMENT ${literal(during)}`);
    } else {
      if (problem !== undefined) throw loadRefused(problem, { hint: 'give the stream another table with `table:`' });
      if (isFirst) await this.#comment(table.name, during);
      await attempt.merge(data, action.type === 'merge' ? action.absent : 'keep');
    }
    await this.#reached(load);
    await this.#move(load, attempt.version);
    if (isFirst || found?.comment !== comment) await this.#comment(table.name, comment);
  }

  async #comment(table: string, comment: string): Promise<void> {
    await this.#session.run(`ALTER TABLE ${identifier(table)} MODIFY COMMENT ${literal(comment)}`);
  }

  /** The number of the load that moved the watermark last. @throws {CdsyncError} if the watermark has moved since the plan */
  async #reached({ before, after, stream }: Load): Promise<number> {
    const mark = (await this.#marks()).find(
      ({ watermark }) => watermark.destination === after.destination && watermark.stream === after.stream,
    );
    if (!sameWatermark(mark?.watermark, before)) throw watermarkMoved(stream);
    return mark?.version ?? 0;
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

/** Why rows cannot be merged into a table; undefined if they can, or if there is no table. */
function engineProblem({ name, key }: TargetTable, found: FoundTable | undefined): string | undefined {
  if (found === undefined || found.keepsLast === key.length > 0) return undefined;
  return found.keepsLast
    ? `table "${name}" keeps one row of each key; mode append needs a table that keeps all rows`
    : `table "${name}" has the engine ${found.engine}; this mode needs ReplacingMergeTree(${versionColumn}, ${deletedColumn})`;
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
  return new ClickhouseDestination(clickhouseSession(context), context.destination);
}

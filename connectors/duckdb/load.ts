import { chmod, mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type DuckDBConnection, DuckDBInstance, type DuckDBValue } from '@duckdb/node-api';
import {
  type CdsyncError,
  type ChecksumColumn,
  type ColumnSum,
  columnSums,
  countDiffers,
  type DestinationContext,
  duckdbRefused,
  filePattern,
  type Load,
  type LoadData,
  loadRefused,
  permissionMissing,
  type SchemaChange,
  type SummedColumn,
  sameWatermark,
  type TableDescription,
  type TableDestination,
  type TargetTable,
  unavailable,
  type Watermark,
  watermarkFrom,
  watermarkMoved,
  watermarkTable,
} from '../../src/sdk/index.js';
import type { duckdbOptions } from './options.js';
import { spelledLikeOurs } from './types.js';

type Row = Record<string, DuckDBValue>;

function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function names(columns: readonly { readonly name: string }[]): string {
  return columns.map(({ name }) => identifier(name)).join(', ');
}

function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${identifier(name)} = s.${identifier(name)}`).join(' AND ');
}

/** The error for a failure of DuckDB, without DuckDB's message: that may quote rows. */
function refusal(cause: unknown): CdsyncError {
  const message = cause instanceof Error ? cause.message : String(cause);
  if (/permission denied|read-only/i.test(message)) {
    return permissionMissing('the DuckDB file may not be written', {
      hint: 'check who owns the file and its folder',
      cause,
    });
  }
  if (/lock|being used by|write-write conflict|Conflict on/i.test(message))
    return unavailable('the DuckDB file is in use by another process', { hint: 'close it there', cause });
  return duckdbRefused('DuckDB refused a statement', message, { cause });
}

/** The error for a file that cannot be opened. Nothing was read of it, so DuckDB's words quote no row. */
function openRefusal(cause: unknown, path: string): CdsyncError {
  const error = refusal(cause);
  if (error.code !== 'destination_refused') return error;
  const [words = ''] = (cause instanceof Error ? cause.message : String(cause)).split('\n');
  return loadRefused(`${path} cannot be opened: ${words}`, {
    hint: 'move the file away if it is not a DuckDB database, or choose another `path`',
    cause,
  });
}

/** Tables of a DuckDB file, over one connection. */
class DuckdbDestination implements TableDestination {
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;
  readonly #schema: string;

  constructor(instance: DuckDBInstance, connection: DuckDBConnection, schema: string) {
    this.#instance = instance;
    this.#connection = connection;
    this.#schema = schema;
  }

  #table(name: string): string {
    return `${identifier(this.#schema)}.${identifier(name)}`;
  }

  async #run(sql: string): Promise<void> {
    try {
      await this.#connection.run(sql);
    } catch (error) {
      throw refusal(error);
    }
  }

  async #rows(sql: string): Promise<Row[]> {
    try {
      return (await this.#connection.runAndReadAll(sql)).getRowObjects() as Row[];
    } catch (error) {
      throw refusal(error);
    }
  }

  async #number(sql: string): Promise<number> {
    const [row] = await this.#rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  async watermarks(): Promise<Watermark[]> {
    await this.#run(`CREATE SCHEMA IF NOT EXISTS ${identifier(this.#schema)}`);
    await this.#run(`CREATE TABLE IF NOT EXISTS ${this.#table(watermarkTable)} (destination VARCHAR, stream VARCHAR,
      table_name VARCHAR, store_id VARCHAR, sequence BIGINT, definition VARCHAR, delivered_at VARCHAR)`);
    const rows = await this.#rows(`FROM ${this.#table(watermarkTable)}`);
    return rows.map(watermarkFrom);
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const rows = await this.#rows(`SELECT column_name, data_type FROM duckdb_columns()
      WHERE database_name = current_database() AND schema_name = ${literal(this.#schema)} AND table_name = ${literal(table)}
      ORDER BY column_index`);
    if (rows.length === 0) return undefined;
    const isEmpty = (await this.#number(`SELECT count(*) FROM (FROM ${this.#table(table)} LIMIT 1)`)) === 0;
    const columns = rows.map((row) => ({
      name: String(row.column_name),
      type: spelledLikeOurs(String(row.data_type)),
    }));
    return { columns, isEmpty };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = this.#table(table.name);
    if (change.type === 'create') {
      const columns = table.columns.map(({ name, type }) => `${identifier(name)} ${type}`);
      return this.#run(`CREATE TABLE IF NOT EXISTS ${target} (${columns.join(', ')})`);
    }
    if (change.type === 'change_type') {
      const { name, type } = change.column;
      return this.#run(
        `ALTER TABLE ${target} ALTER COLUMN ${identifier(name)} SET DATA TYPE ${type} USING ${
          change.isEmpty ? `NULL::${type}` : `${identifier(name)}::${type}`
        }`,
      );
    }
    for (const { name, type } of change.columns)
      await this.#run(`ALTER TABLE ${target} ADD COLUMN IF NOT EXISTS ${identifier(name)} ${type}`);
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const query = `FROM ${this.#table(table)} WHERE ${identifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#number(`SELECT count(*) FROM (${query})`)) === 0;
  }

  async load(load: Load): Promise<void> {
    const interrupt = () => this.#connection.interrupt();
    load.signal.addEventListener('abort', interrupt);
    try {
      load.signal.throwIfAborted();
      await this.#run('BEGIN TRANSACTION');
      try {
        await this.#change(load);
        await this.#moveWatermark(load);
        await this.#run('COMMIT');
      } catch (error) {
        await this.#connection.run('ROLLBACK').catch(() => undefined);
        throw error;
      }
    } finally {
      load.signal.removeEventListener('abort', interrupt);
    }
  }

  #change(load: Load): Promise<void> {
    const { action, table, data } = load;
    if (action.type === 'merge') return this.#merge(load, action.absent);
    return this.#exchange(this.#table(table.name), data, action.type === 'replace');
  }

  async #exchange(target: string, data: LoadData, replaces: boolean): Promise<void> {
    if (replaces) await this.#run(`DELETE FROM ${target}`);
    await this.#insert(target, data);
  }

  async #insert(target: string, data: LoadData): Promise<void> {
    const columns = names(data.columns);
    let arrived = 0;
    for await (const { path } of data.files()) {
      arrived += await this.#number(
        `INSERT INTO ${target} (${columns}) SELECT ${columns} FROM read_parquet(${literal(filePattern(path))})`,
      );
    }
    if (arrived !== data.handedOver) throw countDiffers('the table', data.handedOver, arrived);
  }

  async #merge({ table, data, deliveredAt }: Load, absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const target = this.#table(table.name);
    const typed = data.columns.map(({ name, targetType }) => `${identifier(name)} ${targetType}`);
    await this.#run(`CREATE OR REPLACE TEMP TABLE _cdsync_stage (${typed.join(', ')})`);
    await this.#insert('temp._cdsync_stage', data);
    const same = sameKey(table.key);
    const stage = 'temp._cdsync_stage AS s';
    await this.#run(`DELETE FROM ${target} AS t USING ${stage} WHERE s._op = 'delete' AND ${same}`);
    const values = table.columns.filter(({ name }) => !table.key.includes(name));
    const assigned = values.map(({ name }) => `${identifier(name)} = s.${identifier(name)}`);
    await this.#run(
      `UPDATE ${target} AS t SET ${assigned.join(', ')} FROM ${stage} WHERE s._op = 'upsert' AND ${same}`,
    );
    await this.#run(`INSERT INTO ${target} (${names(table.columns)}) SELECT ${names(table.columns)} FROM ${stage}
      WHERE s._op = 'upsert' AND NOT EXISTS (SELECT 1 FROM ${target} AS t WHERE ${same})`);
    const isAbsent = `NOT EXISTS (SELECT 1 FROM ${stage} WHERE ${same})`;
    if (absent === 'delete') await this.#run(`DELETE FROM ${target} AS t WHERE ${isAbsent}`);
    if (absent === 'mark') {
      const now = `${literal(deliveredAt)}::TIMESTAMPTZ`;
      await this.#run(`UPDATE ${target} AS t SET _deleted_at = ${now} WHERE _deleted_at IS NULL AND ${isAbsent}`);
    }
    await this.#run('DROP TABLE temp._cdsync_stage');
  }

  async #moveWatermark({ before, after, stream }: Load): Promise<void> {
    const table = this.#table(watermarkTable);
    const own = `destination = ${literal(after.destination)} AND stream = ${literal(after.stream)}`;
    const [found] = await this.#rows(`SELECT * FROM ${table} WHERE ${own}`);
    if (!sameWatermark(found && watermarkFrom(found), before)) throw watermarkMoved(stream);
    await this.#run(`DELETE FROM ${table} WHERE ${own}`);
    const { destination, table: name, storeId, sequence, definition, deliveredAt } = after;
    const values = [destination, stream, name, storeId].map(literal);
    await this.#run(
      `INSERT INTO ${table} VALUES (${values.join(', ')}, ${sequence}, ${literal(definition)}, ${literal(deliveredAt)})`,
    );
  }

  count(table: string, live: boolean): Promise<number> {
    return this.#number(`SELECT count(*) FROM ${this.#table(table)}${live ? ' WHERE _deleted_at IS NULL' : ''}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const [row] = await this.#rows(`SELECT ${selected} FROM ${this.#table(table)}${where}`);
      return row;
    });
  }

  async close(): Promise<void> {
    this.#connection.closeSync();
    // Releases the file at once, unless this process has it open elsewhere too.
    this.#instance.closeSync();
  }
}

function summed({ name, of }: ChecksumColumn): SummedColumn {
  const value = identifier(name);
  const text = checkedText(value, of.kind);
  return {
    name,
    value,
    sum: text === undefined ? undefined : `sum(('0x' || substr(md5(${text}), 1, 8))::UBIGINT)::VARCHAR`,
  };
}

function checkedText(column: string, kind: ChecksumColumn['of']['kind']): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'text') return `${column}::VARCHAR`;
  if (kind === 'date') return `strftime(${column}, '%Y-%m-%d')`;
  return kind === 'timestamp' ? `epoch_us(${column})::VARCHAR` : undefined;
}

/** Opens the file. All destinations of a process that load the same file share one instance of DuckDB. */
export async function openDuckdb({ options }: DestinationContext<typeof duckdbOptions>): Promise<TableDestination> {
  const { path, schema, memoryMb } = options;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const isNew = (await stat(path).catch(() => undefined)) === undefined;
    const instance = await DuckDBInstance.fromCache(path, { memory_limit: `${memoryMb}MB` });
    try {
      // DuckDB creates files that the umask may let others read.
      if (isNew) await chmod(path, 0o600);
      const connection = await instance.connect();
      await connection.run("SET TimeZone = 'UTC'");
      return new DuckdbDestination(instance, connection, schema);
    } catch (error) {
      instance.closeSync();
      throw error;
    }
  } catch (error) {
    throw openRefusal(error, path);
  }
}

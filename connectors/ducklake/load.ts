import {
  type ChecksumColumn,
  type ColumnSum,
  columnSums,
  countDiffers,
  type DestinationContext,
  type Load,
  type LoadData,
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
import { lake } from './catalog.js';
import type { DucklakeShape } from './options.js';
import { type LakeSession, openLake } from './session.js';
import { identifier, literal } from './sql.js';
import { spelledLikeOurs } from './types.js';

/** This many outdated watermarks are kept before they are removed. */
const outdatedMax = 500;
const stage = 'temp._cdsync_stage';

function names(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${identifier(name)}`).join(', ');
}

function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${identifier(name)} = s.${identifier(name)}`).join(' AND ');
}

/** Tables of one schema of a lake, over one connection. */
class DucklakeDestination implements TableDestination {
  readonly #session: LakeSession;
  readonly #schema: string;

  constructor(session: LakeSession, schema: string) {
    this.#session = session;
    this.#schema = schema;
  }

  #table(name: string): string {
    return `${lake}.${identifier(this.#schema)}.${identifier(name)}`;
  }

  /**
   * A load adds its watermark; the one added last stands. DuckLake refuses a commit that adds rows to a table from which another
   * has removed some meanwhile: if loads removed outdated ones, streams could not be loaded side by side.
   */
  async watermarks(): Promise<Watermark[]> {
    await this.#ensureWatermarks();
    const table = this.#table(watermarkTable);
    const rows = await this.#session.rows(
      `SELECT * FROM ${table} QUALIFY row_number() OVER (PARTITION BY destination, stream ORDER BY rowid DESC) = 1`,
    );
    const outdated = (await this.#session.number(`SELECT count(*) FROM ${table}`)) - rows.length;
    if (outdated > outdatedMax) {
      const standing = `SELECT max(rowid) FROM ${table} GROUP BY destination, stream`;
      await this.#session.run(`DELETE FROM ${table} WHERE rowid NOT IN (${standing})`);
    }
    return rows.map(watermarkFrom);
  }

  async #ensureWatermarks(): Promise<void> {
    const of = `database_name = '${lake}' AND schema_name = ${literal(this.#schema)}`;
    if ((await this.#session.number(`SELECT count(*) FROM duckdb_schemas() WHERE ${of}`)) === 0)
      await this.#session.run(`CREATE SCHEMA IF NOT EXISTS ${lake}.${identifier(this.#schema)}`);
    const found = `SELECT count(*) FROM duckdb_tables() WHERE ${of} AND table_name = ${literal(watermarkTable)}`;
    if ((await this.#session.number(found)) > 0) return;
    await this.#session.run(`CREATE TABLE IF NOT EXISTS ${this.#table(watermarkTable)} (destination VARCHAR, stream VARCHAR,
      table_name VARCHAR, store_id VARCHAR, sequence BIGINT, definition VARCHAR, delivered_at VARCHAR)`);
    // These few rows stay in the catalog, so that not every load leaves a tiny file.
    await this.#session.run(`CALL ${lake}.set_option('data_inlining_row_limit', 10,
      schema => ${literal(this.#schema)}, table_name => ${literal(watermarkTable)})`);
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const rows = await this.#session.rows(`SELECT column_name, data_type FROM duckdb_columns()
      WHERE database_name = '${lake}' AND schema_name = ${literal(this.#schema)} AND lower(table_name) = lower(${literal(table)})
      ORDER BY column_index`);
    if (rows.length === 0) return undefined;
    const filled = await this.#session.number(`SELECT count(*) FROM (FROM ${this.#table(table)} LIMIT 1)`);
    const columns = rows.map((row) => ({
      name: String(row.column_name),
      type: spelledLikeOurs(String(row.data_type)),
    }));
    return { columns, isEmpty: filled === 0 };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = this.#table(table.name);
    const typed = ({ name, type }: { readonly name: string; readonly type: string }) => `${identifier(name)} ${type}`;
    if (change.type === 'create')
      return this.#session.run(`CREATE TABLE IF NOT EXISTS ${target} (${table.columns.map(typed).join(', ')})`);
    if (change.type === 'add_columns') {
      return this.#atOnce(
        change.columns.map((column) => `ALTER TABLE ${target} ADD COLUMN IF NOT EXISTS ${typed(column)}`),
      );
    }
    const { name, type } = change.column;
    if (!change.isEmpty)
      return this.#session.run(`ALTER TABLE ${target} ALTER COLUMN ${identifier(name)} SET DATA TYPE ${type}`);
    // DuckLake only widens types. A column without values can be made anew.
    const others = await this.describe(table.name);
    const isAlone = others?.columns.length === 1;
    const drops = `ALTER TABLE ${target} DROP COLUMN ${identifier(name)}`;
    const adds = `ALTER TABLE ${target} ADD COLUMN ${typed(change.column)}`;
    return isAlone
      ? this.#atOnce([`DROP TABLE ${target}`, `CREATE TABLE ${target} (${typed(change.column)})`])
      : this.#atOnce([drops, adds]);
  }

  /** Runs statements as one transaction. */
  async #atOnce(statements: readonly string[]): Promise<void> {
    await this.#session.run('BEGIN TRANSACTION');
    try {
      for (const statement of statements) await this.#session.run(statement);
      await this.#session.run('COMMIT');
    } catch (error) {
      await this.#session.run('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const query = `FROM ${this.#table(table)} WHERE ${identifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#session.number(`SELECT count(*) FROM (${query})`)) === 0;
  }

  async load(load: Load): Promise<void> {
    const interrupt = () => this.#session.interrupt();
    load.signal.addEventListener('abort', interrupt);
    try {
      load.signal.throwIfAborted();
      // Rows of a merge are brought together first: a short transaction seldom meets another.
      if (load.action.type === 'merge') await this.#stage(load.data);
      await this.#session.run('BEGIN TRANSACTION');
      try {
        await this.#sign(load);
        await this.#change(load);
        await this.#moveWatermark(load);
        await this.#session.run('COMMIT');
      } catch (error) {
        await this.#session.run('ROLLBACK').catch(() => undefined);
        throw error;
      }
      if (load.action.type === 'merge') await this.#session.run(`DROP TABLE ${stage}`);
    } finally {
      load.signal.removeEventListener('abort', interrupt);
    }
  }

  /**
   * Writes into the snapshot which run it is of. The comment is what makes two loads of one table exclude each other: DuckLake lets
   * two transactions add rows to one table, but not if one of them has altered it.
   */
  async #sign({ stream, table, runId, after }: Load): Promise<void> {
    const { destination, sequence } = after;
    const extra = JSON.stringify({ run_id: runId, destination, stream, table: table.name, sequence });
    const message = `run ${runId}: ${stream}`;
    await this.#session.run(
      `CALL ${lake}.set_commit_message('cdsync', ${literal(message)}, extra_info => ${literal(extra)})`,
    );
    const marked = table.columns.find(({ name }) => name === '_synced_at') ?? table.columns[0];
    const column = `${this.#table(table.name)}.${identifier(marked?.name ?? '_synced_at')}`;
    await this.#session.run(
      `COMMENT ON COLUMN ${column} IS ${literal(`Start of the run that brought the row. Last load: run ${runId}`)}`,
    );
  }

  #change(load: Load): Promise<void> {
    const { action, table, data } = load;
    if (action.type === 'merge') return this.#merge(load, action.absent);
    return this.#exchange(this.#table(table.name), data, action.type === 'replace');
  }

  async #exchange(target: string, data: LoadData, replaces: boolean): Promise<void> {
    if (replaces) await this.#session.run(`DELETE FROM ${target}`);
    await this.#insert(target, data);
  }

  async #insert(target: string, data: LoadData): Promise<void> {
    const columns = names(data.columns);
    let arrived = 0;
    for await (const { path } of data.files()) {
      arrived += await this.#session.number(
        `INSERT INTO ${target} (${columns}) SELECT ${columns} FROM read_parquet(${literal(path)})`,
      );
    }
    if (arrived !== data.handedOver) throw countDiffers('the table', data.handedOver, arrived);
  }

  async #stage(data: LoadData): Promise<void> {
    const typed = data.columns.map(({ name, targetType }) => `${identifier(name)} ${targetType}`);
    await this.#session.run(`CREATE OR REPLACE TEMP TABLE _cdsync_stage (${typed.join(', ')})`);
    await this.#insert(stage, data);
  }

  async #merge({ table, deliveredAt }: Load, absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const target = this.#table(table.name);
    const same = sameKey(table.key);
    const has = async (op: string) =>
      (await this.#session.number(`SELECT count(*) FROM (FROM ${stage} WHERE _op = '${op}' LIMIT 1)`)) > 0;
    if (await has('delete'))
      await this.#session.run(`DELETE FROM ${target} AS t USING ${stage} AS s WHERE s._op = 'delete' AND ${same}`);
    if (await has('upsert')) await this.#session.run(upsertSql(target, table, absent !== 'keep'));
    const isAbsent = `NOT EXISTS (SELECT 1 FROM ${stage} AS s WHERE ${same})`;
    if (absent === 'delete') await this.#session.run(`DELETE FROM ${target} AS t WHERE ${isAbsent}`);
    if (absent === 'mark') {
      const now = `${literal(deliveredAt)}::TIMESTAMPTZ`;
      await this.#session.run(
        `UPDATE ${target} AS t SET _deleted_at = ${now} WHERE _deleted_at IS NULL AND ${isAbsent}`,
      );
    }
  }

  async #moveWatermark({ before, after, stream }: Load): Promise<void> {
    const table = this.#table(watermarkTable);
    const own = `destination = ${literal(after.destination)} AND stream = ${literal(after.stream)}`;
    const [found] = await this.#session.rows(`SELECT * FROM ${table} WHERE ${own} ORDER BY rowid DESC LIMIT 1`);
    if (!sameWatermark(found && watermarkFrom(found), before)) throw watermarkMoved(stream);
    const { destination, table: name, storeId, sequence, definition, deliveredAt } = after;
    const texts = [destination, stream, name, storeId].map(literal);
    await this.#session.run(
      `INSERT INTO ${table} VALUES (${texts.join(', ')}, ${sequence}, ${literal(definition)}, ${literal(deliveredAt)})`,
    );
  }

  count(table: string, live: boolean): Promise<number> {
    return this.#session.number(
      `SELECT count(*) FROM ${this.#table(table)}${live ? ' WHERE _deleted_at IS NULL' : ''}`,
    );
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const [row] = await this.#session.rows(`SELECT ${selected} FROM ${this.#table(table)}${where}`);
      return row;
    });
  }

  async close(): Promise<void> {
    this.#session.close();
  }
}

/** A full load writes only rows that differ; another `_synced_at` alone is no difference. */
function upsertSql(target: string, { columns, key }: TargetTable, comesAll: boolean): string {
  const values = columns.filter(({ name }) => !key.includes(name));
  const compared = values.filter(({ name }) => name !== '_synced_at');
  const assigned = values.map(({ name }) => `${identifier(name)} = s.${identifier(name)}`);
  const differs =
    comesAll && compared.length > 0
      ? ` AND (ROW(${names(compared, 't.')}) IS DISTINCT FROM ROW(${names(compared, 's.')}))`
      : '';
  return `MERGE INTO ${target} AS t USING (FROM ${stage} WHERE _op = 'upsert') AS s ON ${sameKey(key)}
    WHEN MATCHED${differs} THEN UPDATE SET ${assigned.join(', ')}
    WHEN NOT MATCHED THEN INSERT (${names(columns)}) VALUES (${names(columns, 's.')})`;
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

/** Opens the lake, and makes it if it is missing. */
export async function openDucklake(context: DestinationContext<DucklakeShape>): Promise<TableDestination> {
  return new DucklakeDestination(await openLake(context, 'create'), context.options.schema);
}

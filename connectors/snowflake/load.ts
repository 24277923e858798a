import { createHash } from 'node:crypto';
import type {
  ChecksumColumn,
  ColumnSum,
  ColumnType,
  DestinationContext,
  Load,
  SchemaChange,
  SummedColumn,
  TableColumn,
  TableDescription,
  TableDestination,
  TargetTable,
  Watermark,
} from '../../src/sdk/index.js';
import {
  columnSums,
  countDiffers,
  loadRefused,
  watermarkColumns,
  watermarkFrom,
  watermarkMoved,
  watermarkTable,
} from '../../src/sdk/index.js';
import type { snowflakeOptions } from './options.js';
import type { SnowflakeSdk } from './sdk.js';
import { Session } from './session.js';
import { identifier, stagedType, stagedValue } from './types.js';

const watermarks = identifier(watermarkTable);
const op = identifier('_op');
const deletedAt = identifier('_deleted_at');

function names(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${identifier(name)}`).join(', ');
}

function definitions(columns: readonly TableColumn[]): string {
  return columns.map(({ name, type }) => `${identifier(name)} ${type}`).join(', ');
}

function sameKey(key: readonly string[], a: string, b: string): string {
  return key.map((name) => `${a}.${identifier(name)} = ${b}.${identifier(name)}`).join(' AND ');
}

/** Tables of one schema. */
class SnowflakeDestination implements TableDestination {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  async #find(table: string): Promise<string | undefined> {
    const [found] = await this.#session.rows(
      `SELECT TABLE_TYPE AS "type" FROM INFORMATION_SCHEMA.TABLES
       WHERE TABLE_SCHEMA = CURRENT_SCHEMA() AND TABLE_NAME = ?`,
      [table],
    );
    return found === undefined ? undefined : String(found.type);
  }

  async watermarks(): Promise<Watermark[]> {
    // Create it only if it is missing: a user may load tables without the right to create them.
    if ((await this.#find(watermarkTable)) === undefined) {
      const columns = watermarkColumns.map((name) => ({
        name,
        type: name === 'sequence' ? 'NUMBER(38,0)' : 'VARCHAR(16777216)',
      }));
      await this.#session.run(`CREATE TABLE IF NOT EXISTS ${watermarks} (${definitions(columns)})`);
    }
    const rows = await this.#session.rows(`SELECT ${watermarkColumns.map(identifier).join(', ')} FROM ${watermarks}`);
    return rows.map(watermarkFrom);
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const type = await this.#find(table);
    if (type === undefined) return undefined;
    if (type !== 'BASE TABLE')
      throw loadRefused(`"${table}" is a ${type.toLowerCase()}`, {
        hint: 'give the stream another one with `table:`',
      });
    const rows = await this.#session.rows(`DESCRIBE TABLE ${identifier(table)}`);
    const columns = rows.map((row) => ({ name: String(row.name), type: String(row.type) }));
    const filled = `SELECT COUNT(*) AS "rows" FROM (SELECT 1 FROM ${identifier(table)} LIMIT 1)`;
    return { columns, isEmpty: (await this.#session.number(filled)) === 0 };
  }

  async prepare({ name, columns }: TargetTable, change: SchemaChange): Promise<void> {
    const target = identifier(name);
    if (change.type === 'create') {
      await this.#session.run(`CREATE TABLE IF NOT EXISTS ${target} (${definitions(columns)})`);
      return;
    }
    if (change.type === 'change_type' && !change.isEmpty) {
      const { name: column, type } = change.column;
      await this.#session.run(`ALTER TABLE ${target} ALTER COLUMN ${identifier(column)} SET DATA TYPE ${type}`);
      return;
    }
    // Snowflake does not change a column to a type of another kind. The column has no values: drop it and add it again.
    if (change.type === 'change_type')
      await this.#session.run(`ALTER TABLE ${target} DROP COLUMN IF EXISTS ${identifier(change.column.name)}`);
    for (const column of change.type === 'change_type' ? [change.column] : change.columns)
      await this.#session.run(`ALTER TABLE ${target} ADD COLUMN IF NOT EXISTS ${definitions([column])}`);
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const some = `SELECT 1 FROM ${identifier(table)} WHERE ${identifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#session.number(`SELECT COUNT(*) AS "rows" FROM (${some})`)) === 0;
  }

  async load(load: Load): Promise<void> {
    const stop = () => this.#session.stop();
    load.signal.throwIfAborted();
    load.signal.addEventListener('abort', stop);
    const digits = createHash('sha256').update(load.table.name).digest('hex').slice(0, 16);
    // Only this session sees the two, and they end with it. The stage's name needs no quotes.
    const rows = identifier(`_cdsync_rows_${digits}`);
    const files = `CDSYNC_FILES_${digits.toUpperCase()}`;
    try {
      await this.#stage(load, rows, files);
      await this.#session.transaction(async () => {
        // First the watermark: another delivery that wants to move it waits, and then finds that it has been moved.
        await this.#moveWatermark(load);
        await this.#change(load, rows);
      });
    } finally {
      await this.#session.tidy(`DROP STAGE IF EXISTS ${files}`);
      await this.#session.tidy(`DROP TABLE IF EXISTS ${rows}`);
      load.signal.removeEventListener('abort', stop);
    }
  }

  /** Loads all rows into a temporary table, outside of the transaction, because DDL would commit that. */
  async #stage({ data }: Load, rows: string, files: string): Promise<void> {
    const columns = data.columns.map(({ name, targetType }) => ({ name, type: stagedType(targetType) }));
    await this.#session.run(`CREATE OR REPLACE TEMPORARY STAGE ${files}`);
    await this.#session.run(`CREATE OR REPLACE TEMPORARY TABLE ${rows} (${definitions(columns)})`);
    let index = 0;
    for await (const { path } of data.files()) {
      await this.#session.put(path, `@${files}/${index}/`);
      index += 1;
    }
    if (index > 0)
      await this.#session.run(`COPY INTO ${rows} FROM @${files}/
        FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE)
        MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT`);
    const arrived = await this.#session.number(`SELECT COUNT(*) AS "rows" FROM ${rows}`);
    if (arrived !== data.handedOver) throw countDiffers('the staging table', data.handedOver, arrived);
  }

  async #change(load: Load, rows: string): Promise<void> {
    const { action, table, data } = load;
    if (action.type === 'merge') return this.#merge(load, rows, action.absent);
    const values = data.columns.map(({ name, targetType: type }) => stagedValue({ name, type }));
    // INSERT OVERWRITE, unlike TRUNCATE, is part of the transaction: readers see the old rows until its end.
    const insert = action.type === 'replace' ? 'INSERT OVERWRITE INTO' : 'INSERT INTO';
    await this.#session.run(
      `${insert} ${identifier(table.name)} (${names(data.columns)}) SELECT ${values.join(', ')} FROM ${rows}`,
    );
  }

  async #merge(load: Load, rows: string, absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const { table, data, deliveredAt } = load;
    const { columns, key } = table;
    const target = identifier(table.name);
    const values = data.columns.map(
      ({ name, targetType: type }) => `${stagedValue({ name, type })} AS ${identifier(name)}`,
    );
    await this.#session.run(`MERGE INTO ${target} AS t USING (SELECT ${values.join(', ')} FROM ${rows}) AS s
      ON ${sameKey(key, 't', 's')}
      WHEN MATCHED AND s.${op} = 'delete' THEN DELETE
      ${updateClause(table, absent !== 'keep')}
      WHEN NOT MATCHED AND s.${op} = 'upsert' THEN INSERT (${names(columns)}) VALUES (${names(columns, 's.')})`);
    const isAbsent = `NOT EXISTS (SELECT 1 FROM ${rows} AS s WHERE ${sameKey(key, 's', target)})`;
    if (absent === 'delete') await this.#session.run(`DELETE FROM ${target} WHERE ${isAbsent}`);
    if (absent === 'mark')
      await this.#session.run(
        `UPDATE ${target} SET ${deletedAt} = TO_TIMESTAMP_TZ(?) WHERE ${deletedAt} IS NULL AND ${isAbsent}`,
        [deliveredAt],
      );
  }

  async #moveWatermark({ before, after, stream }: Load): Promise<void> {
    const { destination, table, storeId, sequence, definition, deliveredAt } = after;
    const values = [destination, stream, table, storeId, sequence, definition, deliveredAt];
    const moved =
      before === undefined
        ? await this.#addWatermark(values)
        : await this.#session.run(
            `UPDATE ${watermarks} SET "table_name" = ?, "store_id" = ?, "sequence" = ?, "definition" = ?, "delivered_at" = ?
       WHERE "destination" = ? AND "stream" = ? AND "store_id" = ? AND "sequence" = ? AND "delivered_at" = ?`,
            [...values.slice(2), destination, stream, before.storeId, before.sequence, before.deliveredAt],
          );
    if (moved !== 1) throw watermarkMoved(stream);
  }

  /** By MERGE: unlike INSERT, it waits for others that change the table. Snowflake does not enforce primary keys. */
  #addWatermark(values: readonly (string | number)[]): Promise<number> {
    const columns = watermarkColumns.map((name) => ({ name }));
    const given = watermarkColumns.map((name) => `? AS ${identifier(name)}`).join(', ');
    return this.#session.run(
      `MERGE INTO ${watermarks} AS t USING (SELECT ${given}) AS s ON ${sameKey(['destination', 'stream'], 't', 's')}
       WHEN NOT MATCHED THEN INSERT (${names(columns)}) VALUES (${names(columns, 's.')})`,
      values,
    );
  }

  count(table: string, live: boolean): Promise<number> {
    const where = live ? ` WHERE ${deletedAt} IS NULL` : '';
    return this.#session.number(`SELECT COUNT(*) AS "rows" FROM ${identifier(table)}${where}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ` WHERE ${deletedAt} IS NULL` : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const [row] = await this.#session.rows(`SELECT ${selected} FROM ${identifier(table)}${where}`);
      return row;
    });
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

/** A full load writes only rows that differ; another `_synced_at` alone is no difference. */
function updateClause({ columns, key }: TargetTable, comesAll: boolean): string {
  const values = columns.filter(({ name }) => !key.includes(name)).map(({ name }) => identifier(name));
  if (values.length === 0) return '';
  const compared = values.filter((name) => name !== identifier('_synced_at'));
  const differs = compared.map((name) => `t.${name} IS DISTINCT FROM s.${name}`).join(' OR ');
  const when = comesAll && compared.length > 0 ? ` AND (${differs})` : '';
  return `WHEN MATCHED${when} THEN UPDATE SET ${values.map((name) => `${name} = s.${name}`).join(', ')}`;
}

function summed({ name, of }: ChecksumColumn): SummedColumn {
  const value = identifier(name);
  const text = checkedText(value, of.kind);
  return {
    name,
    value,
    sum: text === undefined ? undefined : `TO_VARCHAR(SUM(TO_NUMBER(SUBSTR(MD5(${text}), 1, 8), 'XXXXXXXX')))`,
  };
}

function checkedText(column: string, kind: ColumnType['kind']): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128') return `TO_VARCHAR(${column})`;
  if (kind === 'text') return column;
  if (kind === 'date') return `TO_VARCHAR(${column}, 'YYYY-MM-DD')`;
  return kind === 'timestamp' ? `TO_VARCHAR(DATE_PART(EPOCH_MICROSECOND, ${column}))` : undefined;
}

/** Connects, with the session settings that loads rely on. */
export async function openSnowflake(
  sdk: SnowflakeSdk,
  { options }: DestinationContext<typeof snowflakeOptions>,
): Promise<TableDestination> {
  return new SnowflakeDestination(await Session.open(sdk, options));
}

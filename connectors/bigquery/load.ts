import { randomBytes } from 'node:crypto';
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
import type { bigqueryOptions } from './options.js';
import type { BigquerySdk } from './sdk.js';
import { type Parameters, Session } from './session.js';
import { described, identifier, loadField } from './types.js';

const watermarks = identifier(watermarkTable);
const deletedAt = identifier('_deleted_at');
/** The message that a load's script raises if the watermark is not as it was read. */
const moved = 'cdsync_watermark_moved';
/** Staging tables that a crash leaves behind expire after a day. */
const expires = 'OPTIONS (expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY))';

function names(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${identifier(name)}`).join(', ');
}

function definitions(columns: readonly TableColumn[]): string {
  return columns.map(({ name, type }) => `${identifier(name)} ${type}`).join(', ');
}

/** Clusters a table by its key, so that a MERGE need not read the whole table. */
function clusteredBy({ columns, key }: TargetTable): string {
  const typed = columns.filter(({ name, type }) => key.includes(name) && type !== 'FLOAT64').slice(0, 4);
  return typed.length === 0 ? '' : ` CLUSTER BY ${names(typed)}`;
}

/** Tables of one dataset. */
class BigqueryDestination implements TableDestination {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  #information(view: 'TABLES' | 'COLUMNS'): string {
    return `${identifier(this.#session.dataset)}.INFORMATION_SCHEMA.${view}`;
  }

  async #find(table: string): Promise<string | undefined> {
    const query = `SELECT table_type AS type FROM ${this.#information('TABLES')} WHERE table_name = @name`;
    const [found] = await this.#session.rows(query, { name: table });
    return found === undefined ? undefined : String(found.type);
  }

  async watermarks(): Promise<Watermark[]> {
    // Create it only if it is missing: a user may load tables without the right to create them.
    if ((await this.#find(watermarkTable)) === undefined) {
      const columns = watermarkColumns.map((name) => ({ name, type: name === 'sequence' ? 'INT64' : 'STRING' }));
      await this.#session.rows(`CREATE TABLE IF NOT EXISTS ${watermarks} (${definitions(columns)})`);
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
    const rows = await this.#session.rows(
      `SELECT column_name AS name, data_type AS type FROM ${this.#information('COLUMNS')}
       WHERE table_name = @name ORDER BY ordinal_position`,
      { name: table },
    );
    const columns = rows.map((row) => ({ name: String(row.name), type: described(String(row.type)) }));
    const filled = await this.#session.number(`SELECT COUNT(*) AS found FROM ${identifier(table)}`);
    return { columns, isEmpty: filled === 0 };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = identifier(table.name);
    if (change.type === 'create') {
      const made = `(${definitions(table.columns)})${clusteredBy(table)}`;
      await this.#session.rows(`CREATE TABLE IF NOT EXISTS ${target} ${made}`);
    } else if (change.type === 'add_columns') {
      const added = change.columns.map((column) => `ADD COLUMN IF NOT EXISTS ${definitions([column])}`);
      await this.#session.rows(`ALTER TABLE ${target} ${added.join(', ')}`);
    } else {
      const { name, type } = change.column;
      const column = identifier(name);
      // Do not drop the column: BigQuery reserves a dropped name for days. CREATE OR REPLACE is atomic for readers.
      await this.#session.rows(
        change.isEmpty
          ? `CREATE OR REPLACE TABLE ${target}${clusteredBy(table)} AS
             SELECT * REPLACE (CAST(NULL AS ${type}) AS ${column}) FROM ${target}`
          : `ALTER TABLE ${target} ALTER COLUMN ${column} SET DATA TYPE ${type}`,
      );
    }
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    return (await this.#session.number(`SELECT COUNT(${identifier(column)}) AS found FROM ${identifier(table)}`)) === 0;
  }

  async load(load: Load): Promise<void> {
    const stop = () => this.#session.stop();
    load.signal.throwIfAborted();
    load.signal.addEventListener('abort', stop);
    const stage = `_cdsync_rows_${randomBytes(8).toString('hex')}`;
    try {
      await this.#stage(load, stage);
      await this.#commit(load, identifier(stage));
    } finally {
      await this.#session.tidy(`DROP TABLE IF EXISTS ${identifier(stage)}`);
      load.signal.removeEventListener('abort', stop);
    }
  }

  async #stage({ data }: Load, stage: string): Promise<void> {
    const columns = data.columns.map(({ name, targetType: type }) => ({ name, type }));
    await this.#session.rows(`CREATE TABLE ${identifier(stage)} (${definitions(columns)}) ${expires}`);
    let isFirst = true;
    for await (const { path } of data.files()) {
      await this.#session.loadFile(stage, path, columns.map(loadField), isFirst);
      isFirst = false;
    }
    const arrived = await this.#session.number(`SELECT COUNT(*) AS found FROM ${identifier(stage)}`);
    if (arrived !== data.handedOver) throw countDiffers('the staging table', data.handedOver, arrived);
  }

  /** One script, one transaction: a script that fails before its COMMIT is rolled back. */
  async #commit(load: Load, stage: string): Promise<void> {
    const { before, after, stream, deliveredAt } = load;
    const parameters: Parameters = {
      destination: after.destination,
      stream,
      table_name: after.table,
      store_id: after.storeId,
      sequence: after.sequence,
      definition: after.definition,
      delivered_at: after.deliveredAt,
      moment: deliveredAt,
      ...(before === undefined
        ? {}
        : { store_before: before.storeId, sequence_before: before.sequence, moment_before: before.deliveredAt }),
    };
    const script = [
      'BEGIN TRANSACTION',
      before === undefined ? addWatermark() : moveWatermark,
      `IF @@row_count != 1 THEN RAISE USING MESSAGE = '${moved}'; END IF`,
      ...changes(load, stage),
      'COMMIT TRANSACTION',
    ];
    try {
      await this.#session.rows(`${script.join(';\n')};`, parameters);
    } catch (error) {
      // The message may also quote the script, which holds the same word: match it only as the error itself.
      const isMoved = new RegExp(`: (Query error: )?${moved}`).test((error as Error).message);
      throw isMoved ? watermarkMoved(stream) : error;
    }
  }

  count(table: string, live: boolean): Promise<number> {
    const where = live ? ` WHERE ${deletedAt} IS NULL` : '';
    return this.#session.number(`SELECT COUNT(*) AS found FROM ${identifier(table)}${where}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ` WHERE ${deletedAt} IS NULL` : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const [row] = await this.#session.rows(`SELECT ${selected} FROM ${identifier(table)}${where}`);
      return row;
    });
  }

  async close(): Promise<void> {
    // There is no connection to close: each job is a request of its own.
  }
}

const moveWatermark = `UPDATE ${watermarks} SET table_name = @table_name, store_id = @store_id, sequence = @sequence,
  definition = @definition, delivered_at = @delivered_at
  WHERE destination = @destination AND stream = @stream
  AND store_id = @store_before AND sequence = @sequence_before AND delivered_at = @moment_before`;

/** By MERGE: BigQuery lets transactions that change rows of a table exclude each other, but not ones that only insert. */
function addWatermark(): string {
  const given = watermarkColumns.map((name) => `@${name} AS ${name}`).join(', ');
  return `MERGE ${watermarks} AS t USING (SELECT ${given}) AS s ON t.destination = s.destination AND t.stream = s.stream
    WHEN NOT MATCHED THEN INSERT (${watermarkColumns.join(', ')})
    VALUES (${watermarkColumns.map((name) => `s.${name}`).join(', ')})`;
}

/** The statements that change a load's table. */
function changes({ action, table, data }: Load, stage: string): string[] {
  const target = identifier(table.name);
  const insert = `INSERT INTO ${target} (${names(data.columns)}) SELECT ${names(data.columns)} FROM ${stage}`;
  if (action.type === 'append') return [insert];
  if (action.type === 'replace') return [`DELETE FROM ${target} WHERE TRUE`, insert];
  const { columns, key } = table;
  const same = key.map((name) => `t.${identifier(name)} = s.${identifier(name)}`).join(' AND ');
  const clauses = [
    `MERGE ${target} AS t USING ${stage} AS s ON ${same}`,
    "WHEN MATCHED AND s._op = 'delete' THEN DELETE",
    updateClause(table, action.absent !== 'keep'),
    `WHEN NOT MATCHED AND s._op = 'upsert' THEN INSERT (${names(columns)}) VALUES (${names(columns, 's.')})`,
  ];
  if (action.absent === 'delete') clauses.push('WHEN NOT MATCHED BY SOURCE THEN DELETE');
  if (action.absent === 'mark')
    clauses.push(
      `WHEN NOT MATCHED BY SOURCE AND t.${deletedAt} IS NULL THEN UPDATE SET ${deletedAt} = TIMESTAMP(@moment)`,
    );
  return [clauses.filter((clause) => clause !== '').join('\n')];
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
    sum:
      text === undefined
        ? undefined
        : `CAST(SUM(CAST(CONCAT('0x', SUBSTR(TO_HEX(MD5(${text})), 1, 8)) AS INT64)) AS STRING)`,
  };
}

function checkedText(column: string, kind: ColumnType['kind']): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128') return `CAST(${column} AS STRING)`;
  if (kind === 'text') return column;
  if (kind === 'date') return `FORMAT_DATE('%F', ${column})`;
  return kind === 'timestamp' ? `CAST(UNIX_MICROS(${column}) AS STRING)` : undefined;
}

/** Opens the destination. It sends no request before the first job. */
export async function openBigquery(
  sdk: BigquerySdk,
  { options }: DestinationContext<typeof bigqueryOptions>,
): Promise<TableDestination> {
  return new BigqueryDestination(new Session(sdk, options));
}

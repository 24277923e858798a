import { createHash } from 'node:crypto';
import {
  type ChecksumColumn,
  type ColumnSum,
  type ColumnType,
  columnSums,
  type DestinationContext,
  type Load,
  loadRefused,
  type SchemaChange,
  type SummedColumn,
  sameWatermark,
  type TableColumn,
  type TableDescription,
  type TableDestination,
  type TargetTable,
  unavailable,
  type Watermark,
  watermarkFrom,
  watermarkMoved,
  watermarkTable,
} from '../../src/sdk/index.js';
import { BulkLoad } from './bulk-load.js';
import type { mysqlOptions } from './options.js';
import { Session } from './session.js';
import { columnDefinition, describedType, identifier } from './types.js';

const stage = identifier('_cdsync_stage');
const watermarks = identifier(watermarkTable);

function names(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${identifier(name)}`).join(', ');
}

function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${identifier(name)} = s.${identifier(name)}`).join(' AND ');
}

/** A moment as DATETIME takes it. */
function moment(iso: string): string {
  return iso.replace('T', ' ').replace('Z', '');
}

/** Tables of one database, over one connection. */
class MysqlDestination implements TableDestination {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  async watermarks(): Promise<Watermark[]> {
    // Create it only if it is missing: a user may load tables without the right to create them.
    if ((await this.#find(watermarkTable)) === undefined) {
      const text = `varchar(255) CHARACTER SET utf8mb4 COLLATE ${this.#session.collation}`;
      await this.#session.run(`CREATE TABLE IF NOT EXISTS ${watermarks} (destination ${text}, stream ${text},
        table_name ${text}, store_id ${text}, sequence bigint, definition ${text}, delivered_at ${text},
        PRIMARY KEY (destination, stream)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`);
    }
    const rows = await this.#session.rows(`SELECT * FROM ${watermarks}`);
    return rows.map(watermarkFrom);
  }

  /** A table or view by its name. The name may differ in case only if the server ignores case. */
  async #find(table: string): Promise<{ type: string; engine: string; isTransactional: boolean } | undefined> {
    const rows = await this.#session.rows(
      `SELECT t.TABLE_NAME AS name, t.TABLE_TYPE AS type, t.ENGINE AS engine, e.TRANSACTIONS AS transactions,
         @@lower_case_table_names AS folds
       FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
       WHERE t.TABLE_SCHEMA = database() AND lower(t.TABLE_NAME) = lower(?)`,
      [table],
    );
    const found = rows.find(({ name, folds }) => name === table || Number(folds) > 0);
    if (found === undefined) return undefined;
    const { type, engine, transactions } = found;
    return { type: String(type), engine: String(engine), isTransactional: transactions === 'YES' };
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const found = await this.#find(table);
    if (found === undefined) return undefined;
    if (found.type !== 'BASE TABLE') {
      throw loadRefused(`"${table}" is not a table`, { hint: 'give the stream another one with `table:`' });
    }
    if (!found.isTransactional) {
      throw loadRefused(`table "${table}" has the engine ${found.engine}, which has no transactions`, {
        hint: `ALTER TABLE ${identifier(table)} ENGINE=InnoDB; or give the stream another table with \`table:\``,
      });
    }
    const filled = await this.#session.number(`SELECT EXISTS (SELECT 1 FROM ${identifier(table)})`);
    return { columns: await this.#columns(table), isEmpty: filled === 0 };
  }

  async #columns(table: string): Promise<TableColumn[]> {
    const rows = await this.#session.rows(`SHOW FULL COLUMNS FROM ${identifier(table)}`);
    const [statement] = await this.#session.rows(`SHOW CREATE TABLE ${identifier(table)}`);
    const checked = String(statement?.['Create Table']).matchAll(/json_valid\(`((?:[^`]|``)+)`\)/gi);
    const json = new Set([...checked].map((match) => (match[1] as string).replaceAll('``', '`')));
    return rows.map(({ Field, Type, Collation, Key }) => {
      const name = String(Field);
      const column = {
        name,
        type: String(Type),
        collation: Collation === null ? undefined : String(Collation),
        isIndexed: Key !== '',
        isJson: json.has(name),
      };
      return { name, type: describedType(column, this.#session.collation) };
    });
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = identifier(table.name);
    if (change.type === 'create') {
      await this.#session.run(`CREATE TABLE IF NOT EXISTS ${target} ${this.#definition(table, table.columns)}`);
      return;
    }
    if (change.type === 'change_type') {
      await this.#session.run(`ALTER TABLE ${target} MODIFY COLUMN ${this.#column(table, change.column)}`);
      return;
    }
    const there = new Set((await this.#columns(table.name)).map(({ name }) => name.toLowerCase()));
    const added = change.columns
      .filter(({ name }) => !there.has(name.toLowerCase()))
      .map((column) => `ADD COLUMN ${this.#column(table, column)}`);
    if (added.length > 0) await this.#session.run(`ALTER TABLE ${target} ${added.join(', ')}`);
  }

  #column(table: TargetTable, { name, type }: TableColumn): string {
    const key = table.columns.filter((column) => table.key.includes(column.name));
    return columnDefinition({ name, type, key, collation: this.#session.collation });
  }

  #definition(table: TargetTable, columns: readonly TableColumn[]): string {
    const parts = columns.map((column) => this.#column(table, column));
    if (table.key.length > 0) parts.push(`PRIMARY KEY (${table.key.map(identifier).join(', ')})`);
    return `(${parts.join(', ')}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4`;
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const query = `SELECT 1 FROM ${identifier(table)} WHERE ${identifier(column)} IS NOT NULL`;
    return (await this.#session.number(`SELECT EXISTS (${query})`)) === 0;
  }

  async load(load: Load): Promise<void> {
    const stop = () => this.#session.cut();
    load.signal.throwIfAborted();
    load.signal.addEventListener('abort', stop);
    try {
      if (load.table.key.length > 0) await this.#ensureKey(load.table);
      if (load.action.type === 'replace') await this.#replace(load);
      else if (load.action.type === 'merge') await this.#merge(load, load.action.absent);
      else await this.#commit(load, () => this.#copy(load, identifier(load.table.name)));
    } finally {
      load.signal.removeEventListener('abort', stop);
    }
  }

  /** Adds the primary key to a table without one, such as a table that others have made. */
  async #ensureKey({ name, columns, key }: TargetTable): Promise<void> {
    const target = identifier(name);
    const primary = await this.#session.rows(`SHOW INDEX FROM ${target} WHERE Key_name = 'PRIMARY'`);
    if (primary.length > 0) return;
    const typed = columns.filter((column) => key.includes(column.name));
    const modified = typed.map((column) => `MODIFY COLUMN ${this.#column({ name, columns, key }, column)}`);
    await this.#session.run(
      `ALTER TABLE ${target} ${modified.join(', ')}, ADD PRIMARY KEY (${key.map(identifier).join(', ')})`,
    );
  }

  /** Does the work and moves the watermark in one transaction. */
  async #commit(load: Load, work: () => Promise<void>): Promise<void> {
    await this.#transaction(async () => {
      await work();
      await this.#moveWatermark(load);
    });
  }

  async #transaction(work: () => Promise<void>): Promise<void> {
    try {
      await this.#session.run('START TRANSACTION');
      await work();
      await this.#session.run('COMMIT');
    } catch (error) {
      await this.#session.run('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  #copy({ data }: Load, target: string): Promise<void> {
    return new BulkLoad(this.#session, target, data).all(data);
  }

  async #merge(load: Load, absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    // Outside of the transaction, because DDL would commit it. The table is visible only to this connection, and ends with it.
    await this.#session.run(`DROP TEMPORARY TABLE IF EXISTS ${stage}`);
    const staged = load.data.columns.map(({ name, targetType: type }) => ({ name, type }));
    await this.#session.run(`CREATE TEMPORARY TABLE ${stage} ${this.#definition(load.table, staged)}`);
    await this.#transaction(() => this.#copy(load, stage));
    await this.#commit(load, () => this.#mergeStage(load, absent));
    await this.#session.run(`DROP TEMPORARY TABLE IF EXISTS ${stage}`);
  }

  /** Merges the staged rows. A statement may name a temporary table only once. */
  async #mergeStage({ table, deliveredAt }: Load, absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const target = `${identifier(table.name)} AS t`;
    const same = sameKey(table.key);
    const staged = `${target} LEFT JOIN ${stage} AS s ON ${same}`;
    await this.#session.run(`DELETE t FROM ${target} JOIN ${stage} AS s ON ${same} WHERE s._op = 'delete'`);
    await this.#update(target, table, absent !== 'keep');
    // Not ON DUPLICATE KEY: that also reacts to any other unique index of the table.
    await this.#session.run(`INSERT INTO ${identifier(table.name)} (${names(table.columns)})
      SELECT ${names(table.columns, 's.')} FROM ${stage} AS s LEFT JOIN ${target} ON ${same}
      WHERE s._op = 'upsert' AND t.${identifier(table.key[0] as string)} IS NULL`);
    if (absent === 'delete') await this.#session.run(`DELETE t FROM ${staged} WHERE s._op IS NULL`);
    if (absent === 'mark') {
      const marked = `UPDATE ${staged} SET t._deleted_at = ? WHERE t._deleted_at IS NULL AND s._op IS NULL`;
      await this.#session.run(marked, [moment(deliveredAt)]);
    }
  }

  /** A full load writes only rows that differ; another `_synced_at` alone is no difference. */
  async #update(target: string, { columns, key }: TargetTable, comesAll: boolean): Promise<void> {
    const values = columns.filter(({ name }) => !key.includes(name)).map(({ name }) => identifier(name));
    if (values.length === 0) return;
    const compared = values.filter((name) => name !== identifier('_synced_at'));
    const equal = compared.map((name) => `t.${name} <=> s.${name}`).join(' AND ');
    const differs = comesAll && compared.length > 0 ? ` AND NOT (${equal})` : '';
    await this.#session.run(`UPDATE ${target} JOIN ${stage} AS s ON ${sameKey(key)}
      SET ${values.map((name) => `t.${name} = s.${name}`).join(', ')} WHERE s._op = 'upsert'${differs}`);
  }

  /**
   * Loads a new table and swaps its name with the old one's, at once for readers. RENAME commits by itself, so the watermark
   * moves after it: a load that is cut short in between is simply repeated.
   */
  async #replace(load: Load): Promise<void> {
    const { name } = load.table;
    const digits = createHash('sha256').update(name).digest('hex').slice(0, 16);
    const lock = `cdsync ${digits} ${this.#session.database}`.slice(0, 64);
    if ((await this.#session.number('SELECT get_lock(?, 0)', [lock])) !== 1)
      throw unavailable(`another delivery is loading table "${name}"`);
    const [fresh, old] = [identifier(`_cdsync_new_${digits}`), identifier(`_cdsync_old_${digits}`)];
    await this.#session.run(`DROP TABLE IF EXISTS ${fresh}, ${old}`);
    try {
      await this.#session.run(`CREATE TABLE ${fresh} LIKE ${identifier(name)}`);
      await this.#transaction(() => this.#copy(load, fresh));
      await this.#swap(load, { fresh, old });
    } finally {
      await this.#session.run(`DROP TABLE IF EXISTS ${fresh}, ${old}`).catch(() => undefined);
      await this.#session.rows('SELECT release_lock(?)', [lock]).catch(() => undefined);
    }
  }

  async #swap(load: Load, { fresh, old }: { readonly fresh: string; readonly old: string }): Promise<void> {
    const target = identifier(load.table.name);
    load.signal.throwIfAborted();
    if (!(await this.#isBefore(load))) throw watermarkMoved(load.stream);
    await this.#session.run(`RENAME TABLE ${target} TO ${old}, ${fresh} TO ${target}`);
    try {
      await this.#commit(load, async () => undefined);
    } catch (error) {
      await this.#session.run(`RENAME TABLE ${target} TO ${fresh}, ${old} TO ${target}`).catch(() => undefined);
      throw error;
    }
  }

  async #isBefore({ before, after }: Load): Promise<boolean> {
    const found = (await this.watermarks()).find(
      ({ destination, stream }) => destination === after.destination && stream === after.stream,
    );
    return sameWatermark(found, before);
  }

  async #moveWatermark({ before, after, stream }: Load): Promise<void> {
    const { destination, table: name, storeId, sequence, definition, deliveredAt } = after;
    const { affectedRows } =
      before === undefined
        ? await this.#session.run(`INSERT IGNORE INTO ${watermarks} VALUES (?, ?, ?, ?, ?, ?, ?)`, [
            ...[destination, stream, name, storeId, sequence, definition, deliveredAt],
          ])
        : await this.#session.run(
            `UPDATE ${watermarks} SET table_name = ?, store_id = ?, sequence = ?, definition = ?, delivered_at = ?
             WHERE destination = ? AND stream = ? AND store_id = ? AND sequence = ? AND delivered_at = ?`,
            [
              ...[name, storeId, sequence, definition, deliveredAt],
              ...[destination, stream, before.storeId, before.sequence, before.deliveredAt],
            ],
          );
    if (affectedRows !== 1) throw watermarkMoved(stream);
  }

  count(table: string, live: boolean): Promise<number> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return this.#session.number(`SELECT count(*) FROM ${identifier(table)}${where}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const [row] = await this.#session.rows(`SELECT ${selected} FROM ${identifier(table)}${where}`);
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
  return {
    name,
    value,
    sum: text === undefined ? undefined : `sum(cast(conv(substr(md5(${text}), 1, 8), 16, 10) AS unsigned))`,
  };
}

function checkedText(column: string, kind: ColumnType['kind']): string | undefined {
  if (kind === 'boolean') return `CASE ${column} WHEN 0 THEN 'false' WHEN 1 THEN 'true' END`;
  if (kind === 'int64' || kind === 'int128') return `cast(${column} AS char)`;
  if (kind === 'text') return column;
  if (kind === 'date') return `date_format(${column}, '%Y-%m-%d')`;
  return kind === 'timestamp' ? `timestampdiff(MICROSECOND, '1970-01-01', ${column})` : undefined;
}

/** Connects, with the session settings that loads rely on. */
export async function openMysql({ options }: DestinationContext<typeof mysqlOptions>): Promise<TableDestination> {
  const { url, password, tls } = options;
  return new MysqlDestination(await Session.open({ url, password, tls }));
}

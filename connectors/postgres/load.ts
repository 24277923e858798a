import pg from 'pg';
import type {
  ChecksumColumn,
  ColumnSum,
  DestinationContext,
  Load,
  SchemaChange,
  SummedColumn,
  TableDescription,
  TableDestination,
  TargetTable,
  Watermark,
} from '../../src/sdk/index.js';
import {
  columnSums,
  loadRefused,
  watermarkFrom,
  watermarkMoved,
  watermarkTable,
  withoutPostgresTls,
  withPostgresTls,
} from '../../src/sdk/index.js';
import { Copy } from './copy.js';
import { identifier, postgresError, type Rights } from './errors.js';
import type { postgresOptions } from './options.js';

const connectMs = 15_000;
/** If others lock a table for longer than this, the load is repeated. */
const lockMs = 60_000;
/**
 * Despite IF NOT EXISTS, PostgreSQL fails if two sessions create the same thing at once, so they take this lock. It lasts until
 * the end of the statements that are sent with it.
 */
const oneAtATime = "SELECT pg_advisory_xact_lock(hashtext('cdsync'))";

type Row = Record<string, unknown>;

function names(columns: readonly { readonly name: string }[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${identifier(name)}`).join(', ');
}

function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${identifier(name)} = s.${identifier(name)}`).join(' AND ');
}

/** Tables of one schema, over one connection. */
class PostgresDestination implements TableDestination {
  readonly #client: pg.Client;
  readonly #rights: Rights;

  constructor(client: pg.Client, rights: Rights) {
    this.#client = client;
    this.#rights = rights;
  }

  #table(name: string): string {
    return `${identifier(this.#rights.schema)}.${identifier(name)}`;
  }

  async #query(sql: string, values: readonly unknown[] = []): Promise<{ rows: Row[]; count: number }> {
    try {
      const { rows, rowCount } = await this.#client.query<Row>(sql, [...values]);
      return { rows, count: rowCount ?? 0 };
    } catch (error) {
      throw postgresError(error, this.#rights);
    }
  }

  async #number(sql: string, values: readonly unknown[] = []): Promise<number> {
    const { rows } = await this.#query(sql, values);
    return Number(Object.values(rows[0] ?? {})[0] ?? 0);
  }

  async #exists(table: string): Promise<boolean> {
    return (await this.#number('SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)', [this.#table(table)])) > 0;
  }

  async watermarks(): Promise<Watermark[]> {
    // Create it only if it is missing: a user may load tables without the right to create them.
    const { schema } = this.#rights;
    if ((await this.#number('SELECT count(*) FROM pg_namespace WHERE nspname = $1', [schema])) === 0)
      await this.#query(`${oneAtATime}; CREATE SCHEMA IF NOT EXISTS ${identifier(schema)}`);
    const table = this.#table(watermarkTable);
    if (!(await this.#exists(watermarkTable))) {
      await this.#query(`${oneAtATime}; CREATE TABLE IF NOT EXISTS ${table} (destination text, stream text, table_name text, store_id text,
        sequence bigint, definition text, delivered_at text, PRIMARY KEY (destination, stream))`);
    }
    const { rows } = await this.#query(`SELECT * FROM ${table}`);
    return rows.map(watermarkFrom);
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const { rows } = await this.#query(
      `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, c.relkind AS kind
       FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       WHERE c.oid = to_regclass($1) ORDER BY a.attnum`,
      [this.#table(table)],
    );
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first.kind !== 'r' && first.kind !== 'p') {
      throw loadRefused(`${this.#table(table)} is not a table`, { hint: 'give the stream another one with `table:`' });
    }
    const columns = rows.flatMap(({ name, type }) =>
      name === null ? [] : [{ name: String(name), type: String(type) }],
    );
    const filled = await this.#number(`SELECT count(*) FROM (SELECT 1 FROM ${this.#table(table)} LIMIT 1) AS rows`);
    return { columns, isEmpty: filled === 0 };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = this.#table(table.name);
    if (change.type === 'create') {
      // The primary key is added after the first load: one sort is cheaper than a million inserts into an index.
      const columns = table.columns.map(({ name, type }) => `${identifier(name)} ${type}`);
      await this.#query(`CREATE TABLE IF NOT EXISTS ${target} (${columns.join(', ')})`);
    } else if (change.type === 'add_columns') {
      const added = change.columns.map(({ name, type }) => `ADD COLUMN IF NOT EXISTS ${identifier(name)} ${type}`);
      await this.#query(`ALTER TABLE ${target} ${added.join(', ')}`);
    } else {
      const { name, type } = change.column;
      const using = change.isEmpty ? `NULL::${type}` : `${identifier(name)}::${type}`;
      await this.#query(`ALTER TABLE ${target} ALTER COLUMN ${identifier(name)} TYPE ${type} USING ${using}`);
    }
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const query = `SELECT 1 FROM ${this.#table(table)} WHERE ${identifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#number(`SELECT count(*) FROM (${query}) AS rows`)) === 0;
  }

  async load(load: Load): Promise<void> {
    const stop = () => {
      // With a statement under way this cuts the connection, and the server rolls back.
      void this.#client.end().catch(() => undefined);
    };
    load.signal.throwIfAborted();
    load.signal.addEventListener('abort', stop);
    try {
      await this.#query('BEGIN');
      await this.#change(load);
      await this.#moveWatermark(load);
      await this.#query('COMMIT');
    } catch (error) {
      await this.#client.query('ROLLBACK').catch(() => undefined);
      throw postgresError(error, this.#rights);
    } finally {
      load.signal.removeEventListener('abort', stop);
    }
  }

  async #change(load: Load): Promise<void> {
    const { action, table, data, signal } = load;
    if (action.type === 'merge') return this.#merge(load, action.absent);
    const target = this.#table(table.name);
    // Readers see the old rows until the commit. A new table would lose views, grants and indexes.
    if (action.type === 'replace') await this.#query(`DELETE FROM ${target}`);
    await new Copy(this.#client, target, data, signal).all(data);
    if (table.key.length > 0) await this.#ensureKey(table);
  }

  async #ensureKey({ name, key }: TargetTable): Promise<void> {
    const has = `SELECT count(*) FROM pg_index WHERE indrelid = to_regclass($1) AND indisprimary`;
    if ((await this.#number(has, [this.#table(name)])) > 0) return;
    await this.#query(`ALTER TABLE ${this.#table(name)} ADD PRIMARY KEY (${key.map(identifier).join(', ')})`);
  }

  async #merge({ table, data, deliveredAt, signal }: Load, absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const target = this.#table(table.name);
    const typed = data.columns.map(({ name, targetType }) => `${identifier(name)} ${targetType}`);
    await this.#query(`CREATE TEMP TABLE _cdsync_stage (${typed.join(', ')}) ON COMMIT DROP`);
    await new Copy(this.#client, 'pg_temp._cdsync_stage', data, signal).all(data);
    await this.#query('ANALYZE pg_temp._cdsync_stage');
    const same = sameKey(table.key);
    const stage = 'pg_temp._cdsync_stage AS s';
    await this.#query(`DELETE FROM ${target} AS t USING ${stage} WHERE s._op = 'delete' AND ${same}`);
    await this.#update(target, table, same, absent !== 'keep');
    await this.#query(`INSERT INTO ${target} (${names(table.columns)}) SELECT ${names(table.columns, 's.')} FROM ${stage}
      WHERE s._op = 'upsert' AND NOT EXISTS (SELECT 1 FROM ${target} AS t WHERE ${same})`);
    const isAbsent = `NOT EXISTS (SELECT 1 FROM ${stage} WHERE ${same})`;
    if (absent === 'delete') await this.#query(`DELETE FROM ${target} AS t WHERE ${isAbsent}`);
    if (absent === 'mark') {
      const marked = `UPDATE ${target} AS t SET _deleted_at = $1 WHERE _deleted_at IS NULL AND ${isAbsent}`;
      await this.#query(marked, [deliveredAt]);
    }
  }

  /** A full load writes only rows that differ; another `_synced_at` alone is no difference. */
  async #update(target: string, { columns, key }: TargetTable, same: string, comesAll: boolean): Promise<void> {
    const values = columns.filter(({ name }) => !key.includes(name));
    const compared = values.filter(({ name }) => name !== '_synced_at');
    const assigned = values.map(({ name }) => `${identifier(name)} = s.${identifier(name)}`);
    const differs = ` AND ROW(${names(compared, 't.')}) IS DISTINCT FROM ROW(${names(compared, 's.')})`;
    await this.#query(`UPDATE ${target} AS t SET ${assigned.join(', ')} FROM pg_temp._cdsync_stage AS s
      WHERE s._op = 'upsert' AND ${same}${comesAll ? differs : ''}`);
  }

  async #moveWatermark({ before, after, stream }: Load): Promise<void> {
    const table = this.#table(watermarkTable);
    const { destination, table: name, storeId, sequence, definition, deliveredAt } = after;
    const values = [destination, stream, name, storeId, sequence, definition, deliveredAt];
    const moved =
      before === undefined
        ? await this.#query(`INSERT INTO ${table} VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`, values)
        : await this.#query(
            `UPDATE ${table} SET table_name = $3, store_id = $4, sequence = $5, definition = $6, delivered_at = $7
             WHERE destination = $1 AND stream = $2 AND store_id = $8 AND sequence = $9 AND delivered_at = $10`,
            [...values, before.storeId, before.sequence, before.deliveredAt],
          );
    if (moved.count !== 1) throw watermarkMoved(stream);
  }

  count(table: string, live: boolean): Promise<number> {
    return this.#number(`SELECT count(*) FROM ${this.#table(table)}${live ? ' WHERE _deleted_at IS NULL' : ''}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const { rows } = await this.#query(`SELECT ${selected} FROM ${this.#table(table)}${where}`);
      return rows[0];
    });
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }
}

function summed({ name, of }: ChecksumColumn): SummedColumn {
  const value = identifier(name);
  const text = checkedText(value, of.kind);
  return {
    name,
    value,
    sum: text === undefined ? undefined : `sum(('x' || substr(md5(${text}), 1, 8))::bit(32)::bigint)::text`,
  };
}

function checkedText(column: string, kind: ChecksumColumn['of']['kind']): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'text') return `${column}::text`;
  if (kind === 'date') return `to_char(${column}, 'YYYY-MM-DD')`;
  return kind === 'timestamp' ? `(extract(epoch FROM ${column}) * 1000000)::bigint::text` : undefined;
}

/** Connects, with the session settings that loads rely on. */
/** A connection with the settings that loads rely on. */
export async function connectPostgres({
  options,
  destination,
}: DestinationContext<typeof postgresOptions>): Promise<{ client: pg.Client; rights: Rights }> {
  const url = new URL(options.url.reveal());
  // The driver knows which host a URL without one leads to.
  const { host } = new pg.Client({ connectionString: withoutPostgresTls(url).href });
  const client = new pg.Client({
    connectionString: withPostgresTls(url, host, options.tls).href,
    ...(options.password === undefined ? {} : { password: options.password.reveal() }),
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    application_name: `cdsync ${destination}`,
  });
  const rights: Rights = {
    user: client.user ?? decodeURIComponent(url.username),
    database: client.database ?? url.pathname.slice(1),
    schema: options.schema,
  };
  // An idle connection that breaks reports it here; ignore that, because the next statement fails anyhow.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query(`SET TIME ZONE 'UTC'; SET lock_timeout = ${lockMs}; SET client_encoding = 'UTF8'`);
  } catch (error) {
    await client.end().catch(() => undefined);
    throw postgresError(error, rights);
  }
  return { client, rights };
}

export async function openPostgres(context: DestinationContext<typeof postgresOptions>): Promise<TableDestination> {
  const { client, rights } = await connectPostgres(context);
  return new PostgresDestination(client, rights);
}

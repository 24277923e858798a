import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  canonicalText, duckdbHashing, holdsAsJson, loadRefused, path, permissionMissing, SqlDestination, tableConnector, unavailable,
  vendorLibrary,
} from 'cdsync/sdk';

const types = {
  boolean: 'BOOLEAN', int64: 'BIGINT', int128: 'DECIMAL(38,0)', double: 'DOUBLE', text: 'VARCHAR', date: 'DATE',
  timestamp: 'TIMESTAMP WITH TIME ZONE', json: 'JSON', list: 'JSON', struct: 'JSON',
};

export default tableConnector({
  name: 'shelf',
  summary: 'Loads tables of a DuckDB file.',
  options: {
    path: path({ description: 'The file; made if it is missing.', example: './shelf.duckdb' }),
  },
  capabilities: {
    format: 'parquet',
    identifiers: { maxBytes: 100, allowed: /[a-zA-Z0-9_]/ },
  },
  place: ({ path }) => path,
  mapColumn: ({ kind, precision, scale }) => {
    const type = kind === 'decimal' ? `DECIMAL(${precision},${scale})` : types[kind];
    return { type, as: type };
  },
  holds: holdsAsJson,
  open: ({ options, isReadOnly }) => openShelf(options.path, isReadOnly),
});

const name = (text) => `"${text.replaceAll('"', '""')}"`;
const literal = (text) => `'${text.replaceAll("'", "''")}'`;
const staged = (columns) => columns.map((column) => `${name(column.name)} ${column.targetType}`).join(', ');

const dialect = {
  // DDL is a part of the transaction. If it is not, `transaction` writes an intent before it.
  commit: 'transaction_with_ddl',
  stamps: 'load',
  foldsTables: true,
  own: { text: 'VARCHAR', integer: 'BIGINT', stateTail: ', PRIMARY KEY (destination, stream, table_name)' },
  identifier: name,
  table: name,
  literal,
  moment: (iso) => `${literal(iso)}::TIMESTAMPTZ`,
  // How a value is written as text, and the texts of a row are summed: the same in the database and in cdsync.
  canonical: (value, type) => (types[type.kind] === 'JSON' ? `${value}::VARCHAR` : canonicalText(value, type)),
  hashing: duckdbHashing(),
  stage: (_, columns) => ({
    name: 'temp._cdsync_stage',
    create: [`CREATE TEMP TABLE _cdsync_stage (${staged(columns)})`],
    drop: ['DROP TABLE IF EXISTS temp._cdsync_stage'],
  }),
};

/** An error of DuckDB without its message, which may quote rows. */
function classified(cause) {
  const { message } = cause;
  if (/lock|conflict/i.test(message)) return unavailable('the file is in use by another process', { cause });
  if (/permission denied|read-only/i.test(message))
    return permissionMissing('the file may not be written', { hint: 'check who owns it', cause });
  return loadRefused('DuckDB refused a statement', { cause, causeQuotesValues: true });
}

class Session {
  #instance;
  #connection;

  constructor(instance, connection) {
    this.#instance = instance;
    this.#connection = connection;
  }

  async rows(sql) {
    try {
      return (await this.#connection.runAndReadAll(sql)).getRowObjectsJson();
    } catch (error) {
      throw classified(error);
    }
  }

  /** Returns the number of rows that a change has changed. */
  async run(sql) {
    const [row] = await this.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  /** Loads one file while cdsync writes the next. Returns how many rows arrived: cdsync compares. */
  async fill(target, data) {
    const names = data.columns.map((column) => name(column.name)).join(', ');
    let arrived = 0;
    for await (const { path } of data.files())
      arrived += await this.run(`INSERT INTO ${target} (${names}) SELECT ${names} FROM read_parquet(${literal(path)})`);
    return arrived;
  }

  async begin() {
    await this.run('BEGIN TRANSACTION');
  }

  async commit() {
    await this.run('COMMIT');
  }

  async rollback() {
    await this.run('ROLLBACK');
  }

  stop() {
    this.#connection.interrupt();
  }

  async close() {
    this.#connection.closeSync();
    // Others may open the file from here on.
    this.#instance.closeSync();
  }
}

class Shelf extends SqlDestination {
  /** The columns and the comment of a table; undefined if there is none. */
  async find(table) {
    const own = `database_name = current_database() AND lower(table_name) = lower(${literal(table)})`;
    const [found] = await this.session.rows(`SELECT comment FROM duckdb_tables() WHERE ${own}`);
    if (found === undefined) return undefined;
    const columns = await this.session.rows(
      `SELECT column_name AS name, data_type AS type FROM duckdb_columns() WHERE ${own} ORDER BY column_index`,
    );
    return { columns, comment: found.comment };
  }
}

async function openShelf(file, isReadOnly = false) {
  const { DuckDBInstance } = await vendorLibrary('@duckdb/node-api', () => import('@duckdb/node-api'));
  try {
    const isThere = await stat(file).then(() => true, () => false);
    if (!isReadOnly) await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    // A database in memory has no tables, as the file will have none.
    const instance = await DuckDBInstance.fromCache(isReadOnly && !isThere ? ':memory:' : file);
    const connection = await instance.connect();
    await connection.run("SET TimeZone = 'UTC'");
    return new Shelf(dialect, new Session(instance, connection));
  } catch (error) {
    throw classified(error);
  }
}

import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance, type DuckDBValue } from '@duckdb/node-api';
import {
  type ChecksumColumn,
  type ColumnSum,
  columnSums,
  countDiffers,
  type DestinationContext,
  duckdbProxy,
  loadDuckdbExtensions,
  type SummedColumn,
} from '../../src/sdk/index.js';
import type { RestCatalog } from './catalog.js';
import { CatalogRelay } from './catalog-relay.js';
import { duckdbError } from './duckdb-errors.js';
import { loadCommit, withoutRows } from './load-commit.js';
import type { LoadEngine, StagedLoad } from './load-engine.js';
import { type Change, changeOf, identifier, literal, stage, stagedRows } from './merge-sql.js';
import type { IcebergShape } from './options.js';
import { currentSchema } from './table-metadata.js';

type Options = DestinationContext<IcebergShape>['options'];

/** DuckDB uploads in 10,000 parts at most; the default makes each so large that several at once fill the memory. */
const largestFile = '50GB';

function tableOf(name: string): string {
  return `ice.ns.${identifier(name)}`;
}

function summed({ name, of }: ChecksumColumn): SummedColumn {
  const value = identifier(name);
  const text = checkedText(value, of.kind);
  const sum = text === undefined ? undefined : `sum(('0x' || substr(md5(${text}), 1, 8))::UBIGINT)::VARCHAR`;
  return { name, value, sum };
}

function checkedText(column: string, kind: ChecksumColumn['of']['kind']): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'text') return `${column}::VARCHAR`;
  if (kind === 'date') return `strftime(${column}, '%Y-%m-%d')`;
  return kind === 'timestamp' ? `epoch_us(${column})::VARCHAR` : undefined;
}

/** The login for the object store, as a statement; undefined if the catalog gives it. */
export function secretStatement(options: Options): string | undefined {
  const { accessKeyId, secretAccessKey, sessionToken, region, endpoint, pathStyle, credentials } = options;
  if (accessKeyId === undefined && credentials === 'catalog') return undefined;
  const login =
    accessKeyId === undefined
      ? ['PROVIDER credential_chain']
      : [
          `KEY_ID ${literal(accessKeyId)}`,
          `SECRET ${literal(secretAccessKey?.reveal() ?? '')}`,
          ...(sessionToken === undefined ? [] : [`SESSION_TOKEN ${literal(sessionToken.reveal())}`]),
        ];
  const store = endpoint === undefined ? undefined : new URL(endpoint);
  const place =
    store === undefined ? [] : [`ENDPOINT ${literal(store.host)}`, `USE_SSL ${store.protocol === 'https:'}`];
  const inPath = pathStyle ?? endpoint !== undefined;
  const given = region ?? (endpoint === undefined ? undefined : 'us-east-1');
  const where = given === undefined ? [] : [`REGION ${literal(given)}`];
  const style = `URL_STYLE ${inPath ? "'path'" : "'vhost'"}`;
  return `CREATE SECRET cdsync_store (TYPE s3, ${[...login, ...place, ...where, style].join(', ')})`;
}

/** The engine on this machine: an embedded DuckDB that reaches the catalog through a {@link CatalogRelay}. */
export class DuckdbEngine implements LoadEngine {
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;
  readonly #relay: CatalogRelay;
  readonly #catalog: RestCatalog;

  private constructor(
    instance: DuckDBInstance,
    connection: DuckDBConnection,
    relay: CatalogRelay,
    catalog: RestCatalog,
  ) {
    this.#instance = instance;
    this.#connection = connection;
    this.#relay = relay;
    this.#catalog = catalog;
  }

  /** @throws {CdsyncError} `duckdb_extension_missing` */
  static async open(
    { options, folder }: DestinationContext<IcebergShape>,
    catalog: RestCatalog,
  ): Promise<DuckdbEngine> {
    const relay = await CatalogRelay.open(catalog);
    try {
      const instance = await DuckDBInstance.create(':memory:', {
        memory_limit: `${options.memoryMb}MB`,
        temp_directory: join(folder, 'duckdb'),
        autoinstall_known_extensions: 'false',
      });
      try {
        const connection = await instance.connect();
        await attach(connection, options, relay);
        return new DuckdbEngine(instance, connection, relay, catalog);
      } catch (error) {
        instance.closeSync();
        throw error;
      }
    } catch (error) {
      await relay.close();
      throw error;
    }
  }

  async load(task: StagedLoad): Promise<void> {
    const { base, marker, load } = task;
    const interrupt = () => this.#connection.interrupt();
    load.signal.addEventListener('abort', interrupt);
    try {
      load.signal.throwIfAborted();
      if (task.files.length > 0) await this.#run(stage(task.files));
      const upserts =
        task.files.length === 0 ? 0 : await this.#number(`SELECT count(*) FROM ${stagedRows(load.action)}`);
      const change = changeOf(task, currentSchema(base.metadata), upserts);
      const { metadata } = base;
      const replaces = change.replaces;
      const commit = (updates: Parameters<typeof loadCommit>[0]['updates']) =>
        this.#catalog.commit(load.table.name, loadCommit({ metadata, updates, replaces }, marker));
      const seen = replaces ? { ...base, metadata: withoutRows(metadata) } : base;
      const has = await this.#relay.during({ table: load.table.name, seen, commit }, () => this.#change(task, change));
      // No row changes: only the watermark moves.
      if (!has) await commit([]);
    } catch (error) {
      load.signal.throwIfAborted();
      throw error;
    } finally {
      load.signal.removeEventListener('abort', interrupt);
    }
  }

  async #change({ load, rows }: StagedLoad, { copies, remove, insert, inserted }: Change): Promise<void> {
    const target = tableOf(load.table.name);
    for (const sql of copies(target)) await this.#run(sql);
    await this.#run('BEGIN TRANSACTION');
    try {
      if (remove !== undefined) await this.#run(remove(target));
      if (insert !== undefined) {
        const arrived = await this.#number(insert(target));
        const wanted = inserted ?? rows;
        if (arrived < wanted) throw countDiffers('the table', wanted, arrived);
      }
      await this.#run('COMMIT');
    } catch (error) {
      await this.#connection.run('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  async isEmpty(table: string): Promise<boolean> {
    return (await this.#number(`SELECT count(*) FROM (FROM ${tableOf(table)} LIMIT 1)`)) === 0;
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const query = `FROM ${tableOf(table)} WHERE ${identifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#number(`SELECT count(*) FROM (${query})`)) === 0;
  }

  count(table: string, live: boolean): Promise<number> {
    return this.#number(`SELECT count(*) FROM ${tableOf(table)}${live ? ' WHERE _deleted_at IS NULL' : ''}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ' WHERE _deleted_at IS NULL' : '';
    return columnSums(columns.map(summed), identifier, async (selected) => {
      const [row] = await this.#rows(`SELECT ${selected} FROM ${tableOf(table)}${where}`);
      return row;
    });
  }

  async close(): Promise<void> {
    this.#connection.closeSync();
    this.#instance.closeSync();
    await this.#relay.close();
  }

  async #run(sql: string): Promise<void> {
    await this.#rows(sql);
  }

  async #number(sql: string): Promise<number> {
    const [row] = await this.#rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  async #rows(sql: string): Promise<Record<string, DuckDBValue>[]> {
    try {
      return (await this.#connection.runAndReadAll(sql)).getRowObjects();
    } catch (error) {
      throw this.#relay.explain(duckdbError(error));
    }
  }
}

/**
 * The ways to the object store and to the relay. DuckDB has one proxy for all of S3, and takes the relay's own address for a proxy to
 * the relay: nothing of it leaves this machine.
 */
function waysOut({ endpoint, region }: Options, relay: CatalogRelay): string[] {
  const store = new URL(endpoint ?? `https://s3.${region ?? 'us-east-1'}.amazonaws.com`);
  const { origin } = new URL(relay.endpoint);
  const way = `CREATE SECRET cdsync_relay (TYPE http, HTTP_PROXY ${literal(origin)}, SCOPE ${literal(origin)})`;
  return [...duckdbProxy(store, process.env), way];
}

async function attach(connection: DuckDBConnection, options: Options, relay: CatalogRelay): Promise<void> {
  const secret = secretStatement(options);
  const aws = secret !== undefined && options.accessKeyId === undefined ? ['aws'] : [];
  await loadDuckdbExtensions(connection, ['avro', 'httpfs', 'iceberg', ...aws], options.extensions);
  const delegation = secret === undefined ? 'vended_credentials' : 'none';
  try {
    await connection.run("SET TimeZone = 'UTC'");
    await connection.run(`SET s3_uploader_max_filesize = '${largestFile}'`);
    // The load sorts new files itself; DuckDB refuses to write into a sorted table otherwise.
    await connection.run('SET unsafe_iceberg_ignore_sort_order = true');
    for (const way of waysOut(options, relay)) await connection.run(way);
    if (secret !== undefined) await connection.run(secret);
    await connection.run(`ATTACH '' AS ice (TYPE iceberg, ENDPOINT ${literal(relay.endpoint)}, AUTHORIZATION_TYPE 'none',
      ACCESS_DELEGATION_MODE '${delegation}')`);
  } catch (error) {
    throw duckdbError(error);
  }
}

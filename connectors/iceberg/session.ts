import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import {
  type CdsyncError,
  type ConnectedDuckdb,
  connectDuckdb,
  type DestinationContext,
  DuckdbSession,
  duckdbProxy,
  duckdbRefused,
  duckdbS3Secret,
  filePattern,
  keepSignOfZero,
  type LoadData,
  loadDuckdbExtensions,
  loadRefused,
  memorySettings,
  orClose,
  permissionMissing,
  quoteIdentifier,
  s3Confined,
  s3Server,
  sqlText,
  unavailable,
  wantsMemory,
} from '../../src/sdk/index.js';
import type { RestCatalog } from './catalog.js';
import { CatalogRelay } from './catalog-relay.js';
import { allowStatement, folderOf, isOutside, pathOutside } from './location.js';
import type { IcebergShape } from './options.js';
import { TableDraft } from './table-draft.js';
import { currentSnapshot, type LoadedTable } from './table-metadata.js';

type Options = DestinationContext<IcebergShape>['options'];

/** DuckDB uploads in 10,000 parts at most; the default makes each so large that several at once fill the memory. */
const largestFile = '50GB';

/** SQL of the local view of the rows that were handed over. */
export const stage = 'main._cdsync_stage';

/** SQL of the local table in which rows are made from those and from rows of the table. */
export const next = 'main._cdsync_next';

/** SQL of the name of a table of the namespace. */
export function tableOf(name: string): string {
  return `ice.ns.${quoteIdentifier(name)}`;
}

const denied =
  /\b(401|403)\b|AccessDenied|Forbidden|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Authentication/i;
const silent =
  /could not (connect|establish)|connection (refused|reset|error)|timed? ?out|HTTP Error.*\b(408|429|5\d\d)\b|SSL/i;

/** The error for a failure of DuckDB, without DuckDB's message: that may quote rows and names of files. */
function duckdbError(cause: unknown): CdsyncError {
  const message = cause instanceof Error ? cause.message : String(cause);
  const details = { cause, causeQuotesValues: true };
  if (wantsMemory(cause)) return duckdbRefused('DuckDB refused a statement', cause);
  if (/disabled by configuration/.test(message)) return pathOutside();
  if (/NoSuchBucket|bucket does not exist/i.test(message))
    return loadRefused('the object store has no such bucket', {
      ...details,
      hint: 'does the warehouse of the catalog lie there?',
    });
  if (denied.test(message))
    return permissionMissing('the object store refuses access', {
      ...details,
      hint: 'check `access_key_id` and `secret_access_key`, or which credentials the catalog gives; `credentials: environment` uses those of this machine',
    });
  if (/permission denied|read-only file system/i.test(message))
    return permissionMissing('the folder of the warehouse may not be written', {
      ...details,
      hint: 'run as a user who may write it',
    });
  if (silent.test(message))
    return unavailable('no response from the object store', { ...details, hint: 'check `endpoint` and `region`' });
  if (/\b404\b|no such file|does not exist|cannot open file/i.test(message))
    return loadRefused('a file of the table, or its bucket, is not there', {
      ...details,
      hint: 'does the warehouse of the catalog lie where this machine can reach it?',
    });
  if (/duplicate name .* in struct/i.test(message))
    return loadRefused('DuckDB cannot change rows of a table whose partitions have been changed', {
      ...details,
      hint: 'deliver by the connector `trino`, which can; or give the stream another table with `table:`',
    });
  return duckdbRefused('DuckDB refused a statement', cause);
}

/**
 * An embedded DuckDB that reaches the catalog through a {@link CatalogRelay}. Tables of `main` are its own, in the delivery's folder.
 * Each statement is a transaction: its changes to tables of the catalog go into their drafts.
 */
export class IcebergSession extends DuckdbSession {
  /** ORDER BY of rows where new files are written. */
  order = '';
  /** The same for the view of staged rows, where they are written as they are. */
  stageOrder = '';
  readonly #relay: CatalogRelay;
  readonly #options: Options;
  readonly #folder: string;
  readonly #connect: () => Promise<ConnectedDuckdb>;
  /** Of the table whose files alone DuckDB may use. */
  #place: string | undefined;

  private constructor(
    connected: ConnectedDuckdb,
    {
      relay,
      options,
      folder,
      connect,
    }: { relay: CatalogRelay; options: Options; folder: string; connect: () => Promise<ConnectedDuckdb> },
  ) {
    super(connected, (cause) => relay.explain(duckdbError(cause)) as Error);
    this.#relay = relay;
    this.#options = options;
    this.#folder = folder;
    this.#connect = connect;
  }

  /** @throws {CdsyncError} `duckdb_extension_missing` */
  static async open(context: DestinationContext<IcebergShape>, catalog: RestCatalog): Promise<IcebergSession> {
    const { options, folder } = context;
    const relay = await CatalogRelay.open(catalog);
    const work = join(folder, 'iceberg');
    return orClose(relay, async () => {
      const settings = {
        ...memorySettings(context),
        temp_directory: join(work, 'spill'),
        autoinstall_known_extensions: 'false',
      };
      const database = { path: join(work, 'workbench.duckdb'), settings };
      const connect = async () => {
        await rm(work, { recursive: true, force: true });
        await mkdir(work, { recursive: true, mode: 0o700 });
        return connectDuckdb(database, (opened) => attach(opened, options, relay));
      };
      return new IcebergSession(await connect(), { relay, options, folder: work, connect });
    });
  }

  get #taken(): string {
    return join(this.#folder, 'rows');
  }

  /**
   * Shows a table as the draft has it from now on; undefined: as the catalog has it.
   * @throws {CdsyncError} `storage_altered` if its files are not all below its location; no other one is read
   */
  async show(table: string, draft: TableDraft | undefined): Promise<void> {
    if (draft !== undefined) await this.#confine(table, draft.base);
    this.#relay.show(table, draft);
  }

  async #confine(table: string, base: LoadedTable): Promise<void> {
    const place = folderOf(base.metadata, this.#options);
    if (place !== this.#place) {
      // These settings can be made once.
      if (this.#place !== undefined) await this.replace(this.#connect);
      this.#place = place;
      await this.run(allowStatement([place, this.#folder]));
      await this.run('SET enable_external_access = false');
    }
    const list = currentSnapshot(base.metadata)?.['manifest-list'];
    // DuckDB ends the process if it may not read a manifest, and takes `..` of a key in a bucket for part of a name.
    if (list === undefined) return;
    const outside = async (paths: string) =>
      (await this.rows(`SELECT 1 FROM (${paths}) WHERE ${isOutside('path', place)} LIMIT 1`)).length > 0;
    const lists = `SELECT manifest_path AS path FROM read_avro(${sqlText(list)})`;
    const assertWithin = async (paths: string) => {
      if (await outside(paths)) throw pathOutside();
    };
    await assertWithin(`SELECT ${sqlText(list)} AS path`);
    if (vendsCredentials(this.#options)) await this.#login(table, base);
    await assertWithin(lists);
    for (const { path } of await this.rows(lists))
      await assertWithin(`SELECT data_file.file_path AS path FROM read_avro(${sqlText(String(path))})`);
  }

  /** DuckDB takes the login for the store from the catalog when it binds a table; of one without rows, it reads no file. */
  async #login(table: string, base: LoadedTable): Promise<void> {
    const bare = new TableDraft(base);
    bare.truncate();
    this.#relay.show(table, bare);
    await this.run(`SELECT count(*) FROM ${tableOf(table)}`);
  }

  /** Writes rows into a table, in order. @param rows SQL of their table, or a query in brackets */
  async write(target: string, columns: readonly string[], rows: string): Promise<void> {
    const names = columns.map(quoteIdentifier).join(', ');
    await this.run(`INSERT INTO ${target} (${names}) SELECT ${names} FROM ${rows}${this.order}`);
  }

  /** Takes the files over: the rows of a new table are written from them at once, others are the view {@link stage}. */
  override async fill(target: string, data: LoadData): Promise<number> {
    await rm(this.#taken, { recursive: true, force: true });
    await mkdir(this.#taken, { recursive: true, mode: 0o700 });
    const files: string[] = [];
    for await (const { path } of data.files()) {
      const file = join(this.#taken, `${files.length}.parquet`);
      await rename(path, file);
      files.push(file);
    }
    if (files.length === 0) return 0;
    const rows = `read_parquet([${files.map((file) => sqlText(filePattern(file))).join(', ')}])`;
    const columns = data.columns.map(({ name }) => name);
    if (target === stage)
      await this.run(
        `CREATE OR REPLACE VIEW ${stage} AS SELECT ${columns.map(quoteIdentifier).join(', ')} FROM ${rows}${this.stageOrder}`,
      );
    else await this.write(target, columns, rows);
    return this.run(`SELECT count(*) FROM ${rows}`);
  }

  // A transaction of DuckDB cannot write tables of two catalogs. What counts only together is together in the commit to the catalog.
  override async begin(): Promise<void> {}
  override async commit(): Promise<void> {}
  override async rollback(): Promise<void> {}

  override async close(): Promise<void> {
    await super.close();
    await this.#relay.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/**
 * The ways to the object store and to the relay. DuckDB has one proxy for all of S3, and takes the relay's own address for a proxy to
 * the relay: nothing of it leaves this machine.
 */
function waysOut(options: Options, relay: CatalogRelay): string[] {
  const { origin } = new URL(relay.endpoint);
  const way = `CREATE SECRET cdsync_relay (TYPE http, HTTP_PROXY ${sqlText(origin)}, SCOPE ${sqlText(origin)})`;
  return [...duckdbProxy(s3Server(options), process.env), way];
}

/** Whether the catalog gives the login for the object store. */
export function vendsCredentials({ accessKeyId, credentials }: Options): boolean {
  return accessKeyId === undefined && credentials === 'catalog';
}

async function attach(connection: DuckDBConnection, options: Options, relay: CatalogRelay): Promise<void> {
  const secret = vendsCredentials(options) ? undefined : duckdbS3Secret('cdsync_store', options);
  const aws = secret !== undefined && options.accessKeyId === undefined ? ['aws'] : [];
  await loadDuckdbExtensions(connection, ['avro', 'httpfs', 'iceberg', ...aws], options.extensions);
  const delegation = secret === undefined ? 'vended_credentials' : 'none';
  try {
    await keepSignOfZero(connection);
    await connection.run(`SET s3_uploader_max_filesize = '${largestFile}'`);
    // The load sorts new files itself; DuckDB refuses to write into a sorted table otherwise.
    await connection.run('SET unsafe_iceberg_ignore_sort_order = true');
    for (const statement of s3Confined) await connection.run(statement);
    for (const way of waysOut(options, relay)) await connection.run(way);
    if (secret !== undefined) await connection.run(secret);
    await connection.run(`ATTACH '' AS ice (TYPE iceberg, ENDPOINT ${sqlText(relay.endpoint)}, AUTHORIZATION_TYPE 'none',
      ACCESS_DELEGATION_MODE '${delegation}')`);
  } catch (error) {
    throw duckdbError(error);
  }
}

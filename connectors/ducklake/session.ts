import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { rootCertificates } from 'node:tls';
import type { DuckDBConnection } from '@duckdb/node-api';
import {
  assertNoDefinitions,
  type ConnectedDuckdb,
  connectDuckdb,
  type DestinationContext,
  DuckdbSession,
  duckdbProxy,
  isThere,
  loadDuckdbExtensions,
  loadRefused,
  makeFolders,
  memorySettings,
  orClose,
  redactor,
  Secret,
  s3Confined,
  s3Server,
  sqlText,
} from '../../src/sdk/index.js';
import {
  attachStatement,
  catalogOf,
  catalogPlace,
  connectionString,
  type DucklakeOptions,
  dataPlace,
  lake,
  loginStatements,
  neededExtensions,
  type Purpose,
  passwordOf,
} from './catalog.js';
import { isNoLake, lakeError, type ShownLake } from './errors.js';
import type { DucklakeShape } from './options.js';

type Context = DestinationContext<DucklakeShape>;

function shownLake(options: DucklakeOptions): ShownLake {
  const { secretAccessKey, sessionToken, catalog, password } = options;
  const secrets = [secretAccessKey, sessionToken, catalog.postgres, password, new Secret(passwordOf(options))];
  return { catalog: catalogPlace(options), redact: redactor(secrets.filter((secret) => secret !== undefined)) };
}

/**
 * The database that loads. One process may open a DuckDB file only once, so destinations whose catalog is the same file share an
 * instance: two would not see each other's locks.
 */
function databaseFor({ options, folder }: Context): Parameters<typeof connectDuckdb>[0] {
  const catalog = catalogOf(options);
  const settings = {
    preserve_insertion_order: 'false',
    autoinstall_known_extensions: 'false',
  };
  if (catalog.type !== 'duckdb')
    return { path: ':memory:', settings: { ...settings, temp_directory: join(folder, 'spill') } };
  return {
    path: `:memory:${resolve(catalog.file)}`,
    settings: { ...settings, temp_directory: `${catalog.file}.tmp` },
    isShared: true,
  };
}

/** Writes the authorities that Node.js trusts into a file: libpq has none. */
async function rootsFile(folder: string): Promise<string> {
  const file = join(folder, 'authorities.pem');
  const extra = process.env.NODE_EXTRA_CA_CERTS;
  const more = extra === undefined ? [] : [await readFile(extra, 'utf8').catch(() => '')];
  await writeFile(file, [...rootCertificates, ...more].join('\n'), { mode: 0o600 });
  return file;
}

/** Failures within DuckDB, by the DuckDB file that is the catalog: attaching that once more in the same process never ends. */
const broken = new Map<string, unknown>();

function failure(cause: unknown, shown: ShownLake): Error {
  if (/^INTERNAL Error/.test(String((cause as Error).message))) broken.set(shown.catalog, cause);
  return lakeError(cause, shown);
}

/** A connection to a lake, over an instance of DuckDB that has it attached. */
export class LakeSession extends DuckdbSession {
  /** Of the snapshot that the next commit makes. */
  message: { readonly text: string; readonly extra: string } | undefined;

  constructor(connected: ConnectedDuckdb, shown: ShownLake) {
    super(connected, (cause) => failure(cause, shown));
  }

  override async commit(): Promise<void> {
    if (this.message !== undefined) {
      const { text, extra } = this.message;
      await this.run(`CALL ${lake}.set_commit_message('cdsync', ${sqlText(text)}, extra_info => ${sqlText(extra)})`);
    }
    await super.commit();
  }
}

function connected(context: Context): Promise<ConnectedDuckdb> {
  const { options } = context;
  return connectDuckdb(databaseFor(context), async (opened) => {
    for (const [name, value] of Object.entries(memorySettings(context))) await opened.run(`SET ${name} = '${value}'`);
    await loadDuckdbExtensions(opened, neededExtensions(options), options.extensions);
    const ofStore =
      options.dataUrl === undefined ? [] : [...s3Confined, ...duckdbProxy(s3Server(options), process.env)];
    for (const statement of [...ofStore, ...loginStatements(options)]) await opened.run(statement);
  });
}

/** The result of {@link connectionString}. */
export function catalogConnection({ options, destination, folder }: Context): Promise<string | undefined> {
  return connectionString(options, destination, () => rootsFile(folder));
}

/** A connection with extensions and logins, without the lake. */
export async function openBare(context: Context): Promise<LakeSession> {
  const shown = shownLake(context.options);
  try {
    return new LakeSession(await connected(context), shown);
  } catch (error) {
    throw lakeError(error, shown);
  }
}

/** Work on each catalog that is a file: DuckDB refuses to attach a file while another connection of the process attaches it. */
const attaching = new Map<string, Promise<void>>();

async function attachInTurn(connection: DuckDBConnection, context: Context, purpose: Purpose): Promise<void> {
  const catalog = catalogOf(context.options);
  if (catalog.type === 'postgres') return attach(connection, context, purpose);
  const file = resolve(catalog.file);
  const before = attaching.get(file) ?? Promise.resolve();
  const mine = before.catch(() => undefined).then(() => attach(connection, context, purpose));
  attaching.set(file, mine);
  try {
    await mine;
  } finally {
    if (attaching.get(file) === mine) attaching.delete(file);
  }
}

async function attach(connection: DuckDBConnection, context: Context, purpose: Purpose): Promise<void> {
  const { options } = context;
  const to = await catalogConnection(context);
  const attaches = (how: Purpose) => connection.run(attachStatement(options, how, to));
  const catalog = catalogOf(options);
  const isNewFile = catalog.type !== 'postgres' && !(await isThere(catalog.file));
  // To open a pipe, DuckDB waits for its other end.
  if (catalog.type !== 'postgres' && !isNewFile && !(await stat(catalog.file)).isFile())
    throw loadRefused(`${catalog.file} is not a file`, { hint: 'check `catalog`' });
  // While this process has the lake attached, DuckDB attaches its catalog no second time.
  const isAttached = async () => {
    const reader = await connection.runAndReadAll(`SELECT 1 FROM duckdb_databases() WHERE database_name = '${lake}'`);
    return reader.currentRowCount > 0;
  };
  if (catalog.type === 'duckdb' && !isNewFile && !(await isAttached()))
    await assertNoDefinitions(connection, catalog.file);
  if (purpose !== 'create' || !isNewFile) {
    try {
      await attaches(purpose === 'create' ? 'use' : purpose);
      return;
    } catch (error) {
      if (purpose !== 'create' || !isNoLake(error)) throw error;
    }
  }
  if (dataPlace(options) === undefined)
    throw loadRefused(`there is no lake in ${catalogPlace(options)} yet`, {
      hint: 'say where the Parquet files of a new one go: `data_path` or `data_url`',
    });
  if (options.dataPath !== undefined) await makeFolders(options.dataPath, 0o700);
  if (catalog.type !== 'postgres') await makeFolders(dirname(catalog.file), 0o700);
  await attaches('create');
  // DuckDB creates files that the umask may let others read.
  if (catalog.type !== 'postgres' && isNewFile) await chmod(catalog.file, 0o600);
}

async function assertSameData(session: LakeSession, options: DucklakeOptions): Promise<void> {
  const wanted = dataPlace(options);
  const [row] = await session.rows(`SELECT data_path FROM ducklake_settings('${lake}')`);
  const dataPath = String(row?.data_path);
  const isFolder = options.dataPath !== undefined;
  if (wanted === undefined || wanted === dataPath || (isFolder && resolve(dataPath) === resolve(wanted))) return;
  throw loadRefused(`the lake in ${catalogPlace(options)} keeps its data in ${dataPath}, not in ${wanted}`, {
    hint: 'give the same place, or leave it out',
  });
}

/**
 * Opens the lake; `create` makes it if it is missing.
 * @throws {CdsyncError} `duckdb_extension_missing`, `destination_plaintext`, and those of a destination
 */
export async function openLake(context: Context, purpose: Purpose): Promise<LakeSession> {
  const shown = shownLake(context.options);
  try {
    if (catalogOf(context.options).type === 'duckdb' && broken.has(shown.catalog)) throw broken.get(shown.catalog);
    const duckdb = await connected(context);
    const session = new LakeSession(duckdb, shown);
    await orClose(session, async () => {
      await attachInTurn(duckdb.connection, context, purpose);
      await assertSameData(session, context.options);
    });
    return session;
  } catch (error) {
    throw failure(error, shown);
  }
}

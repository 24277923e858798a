import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { printable } from '../../core/printable.js';
import { proxyFor } from '../../core/proxy.js';
import { decodedLogin } from '../../core/secret.js';
import { sqlText } from '../../core/sql.js';
import { CdsyncError } from '../errors.js';
import { path } from '../option.js';
import type { S3Options } from '../s3/s3-client.js';

/** The part of a connection of DuckDB that is needed here. */
interface DuckdbStatements {
  run(sql: string): Promise<unknown>;
  runAndReadAll(sql: string): Promise<{ getRowObjectsJson(): Record<string, unknown>[] }>;
}

/** The option of a connector that needs extensions of DuckDB: the second argument of {@link loadDuckdbExtensions}. */
export const extensionsOption = path({
  description:
    'Folder with extensions of DuckDB, for machines that cannot download them: files `NAME.duckdb_extension`, or a copy of `~/.duckdb/extensions`. Default: DuckDB downloads each extension once.',
  example: '/opt/duckdb/extensions',
}).optional();

async function isFile(file: string): Promise<boolean> {
  return (await stat(file).catch(() => undefined))?.isFile() === true;
}

interface Build {
  readonly version: string;
  readonly platform: string;
}

async function buildOf(connection: DuckdbStatements): Promise<Build> {
  const [row] = (await connection.runAndReadAll('SELECT version() AS version')).getRowObjectsJson();
  const [on] = (await connection.runAndReadAll('PRAGMA platform')).getRowObjectsJson();
  return { version: String(row?.version), platform: String(on?.platform) };
}

function missing(message: string, { version, platform }: Build, cause?: unknown): CdsyncError {
  return new CdsyncError(message, {
    code: 'duckdb_extension_missing',
    hint: `online, DuckDB downloads it from extensions.duckdb.org; offline, put the file of DuckDB ${version} for ${platform} into a folder and name it with \`extensions:\``,
    cause,
  });
}

/** DuckDB's message about a file, which never quotes a record. */
function firstLine(cause: unknown): string {
  const said = cause instanceof Error ? cause.message : String(cause);
  return printable(said.split('\n')[0] ?? '');
}

async function loadFrom(folder: string, name: string, connection: DuckdbStatements): Promise<void> {
  const build = await buildOf(connection);
  const file = `${name}.duckdb_extension`;
  // The second place is the layout of DuckDB's own folder.
  for (const path of [join(folder, file), join(folder, build.version, build.platform, file)]) {
    if (!(await isFile(path))) continue;
    try {
      await connection.run(`LOAD ${sqlText(path)}`);
      return;
    } catch (error) {
      throw missing(`DuckDB cannot load ${path}: ${firstLine(error)}`, build, error);
    }
  }
  throw missing(`there is no ${file} in ${folder}`, build);
}

async function install(name: string, connection: DuckdbStatements): Promise<void> {
  try {
    await connection.run(`LOAD ${name}`);
  } catch {
    try {
      await connection.run(`INSTALL ${name}`);
      await connection.run(`LOAD ${name}`);
    } catch (error) {
      const what = `DuckDB's extension "${name}" is not installed, and cannot be downloaded`;
      throw missing(`${what}: ${firstLine(error)}`, await buildOf(connection), error);
    }
  }
}

/**
 * Loads extensions of DuckDB into its instance. One that is loaded already costs nothing.
 * @param names as their files are called: `ducklake`, `postgres_scanner`, `httpfs`
 * @param folder where the files are; undefined: DuckDB downloads missing ones, into `~/.duckdb`
 * @throws {CdsyncError} `duckdb_extension_missing` if one is not there, or is built for another DuckDB or another platform
 */
export async function loadDuckdbExtensions(
  connection: DuckdbStatements,
  names: readonly string[],
  folder: string | undefined,
): Promise<void> {
  for (const name of names) {
    if (folder === undefined) await install(name, connection);
    else await loadFrom(folder, name, connection);
  }
}

/**
 * Statements that let DuckDB reach an object store as the other connections of cdsync reach their hosts: by the proxy of the
 * environment, or directly if NO_PROXY names the host or it is this machine. DuckDB alone knows only HTTP_PROXY, and takes it for
 * every host.
 * @throws {CdsyncError} `proxy_invalid`
 */
export function duckdbProxy(store: URL, env: Readonly<Record<string, string | undefined>>): string[] {
  const server = proxyFor(store, env)?.server;
  if (server === undefined) return ["SET http_proxy = ''"];
  const set = (name: string, text: string) => `SET ${name} = ${sqlText(decodedLogin(text))}`;
  const login =
    server.username === ''
      ? []
      : [set('http_proxy_username', server.username), set('http_proxy_password', server.password)];
  const port = server.port === '' && server.protocol === 'http:' ? ':80' : '';
  return [set('http_proxy', `${server.origin}${port}`), ...login];
}

/**
 * Statements that keep logins for S3 at their server: DuckDB takes another server from the query of a path, and parts that a secret lacks, such as a
 * session token, from the environment. Run them after `httpfs` is loaded.
 */
export const s3Confined: readonly string[] = [
  'SET s3_url_compatibility_mode = true',
  ...['access_key_id', 'secret_access_key', 'session_token'].map((name) => `RESET s3_${name}`),
];

/** The server of an object store. */
export function s3Server({ endpoint, region }: Pick<S3Options, 'endpoint' | 'region'>): URL {
  return new URL(endpoint ?? `https://s3.${region ?? 'us-east-1'}.amazonaws.com`);
}

/**
 * The statement that gives DuckDB a login for an object store. It holds secrets: show neither it nor the error that DuckDB returns.
 * @param name of the secret
 * @param scope the URL that it is for; left out: all of S3
 */
export function duckdbS3Secret(name: string, options: Partial<S3Options>, scope?: string): string {
  const { endpoint, region, accessKeyId, secretAccessKey, sessionToken, pathStyle } = options;
  const server = endpoint === undefined ? undefined : new URL(endpoint);
  const settings = {
    SESSION_TOKEN: sessionToken?.reveal(),
    REGION: region ?? (server && 'us-east-1'),
    ENDPOINT: server?.host,
  };
  const texts = { ...settings, URL_STYLE: (pathStyle ?? server !== undefined) ? 'path' : 'vhost', SCOPE: scope };
  const login =
    accessKeyId === undefined
      ? ['PROVIDER credential_chain']
      : [`KEY_ID ${sqlText(accessKeyId)}`, `SECRET ${sqlText(secretAccessKey?.reveal() ?? '')}`];
  return `CREATE OR REPLACE TEMPORARY SECRET ${name} (${[
    'TYPE s3',
    ...login,
    ...Object.entries(texts).flatMap(([key, text]) => (text === undefined ? [] : [`${key} ${sqlText(text)}`])),
    ...(server === undefined ? [] : [`USE_SSL ${server.protocol === 'https:'}`]),
  ].join(', ')})`;
}

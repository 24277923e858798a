import {
  decodedLogin,
  duckdbS3Secret,
  type OptionValues,
  quoteIdentifier,
  sqlText,
  withPostgresTls,
} from '../../src/sdk/index.js';
import type { DucklakeShape } from './options.js';

export type DucklakeOptions = OptionValues<DucklakeShape>;

/** The name of the lake, and of the secrets, in the instance of DuckDB. */
export const lake = 'lake';
const postgresSecret = 'cdsync_catalog';

/** The catalog's kind, and the file or the URL. */
export type Catalog =
  | { readonly type: 'postgres'; readonly url: URL; readonly host: string }
  | { readonly type: 'duckdb' | 'sqlite'; readonly file: string };

export function catalogOf({ catalog }: Pick<DucklakeOptions, 'catalog'>): Catalog {
  if (catalog.postgres !== undefined) {
    const url = new URL(catalog.postgres.reveal());
    return {
      type: 'postgres',
      url,
      host: url.searchParams.get('host') ?? (decodedLogin(url.hostname) || 'localhost'),
    };
  }
  return catalog.duckdb === undefined
    ? { type: 'sqlite', file: catalog.sqlite as string }
    : { type: 'duckdb', file: catalog.duckdb };
}

/** Where the catalog is, without user and password. */
export function catalogPlace(options: Pick<DucklakeOptions, 'catalog' | 'catalogSchema'>): string {
  const catalog = catalogOf(options);
  if (catalog.type !== 'postgres') return catalog.file;
  const schema = options.catalogSchema === undefined ? '' : ` schema ${options.catalogSchema}`;
  return `PostgreSQL ${catalog.host}:${catalog.url.port || '5432'}${catalog.url.pathname}${schema}`;
}

/** SQL of a table of the attached catalog. @param name without the `ducklake_` of all of them */
export function metadataTable(options: Pick<DucklakeOptions, 'catalog' | 'catalogSchema'>, name: string): string {
  const schema = catalogOf(options).type === 'postgres' ? (options.catalogSchema ?? 'public') : 'main';
  return `__ducklake_metadata_${lake}.${quoteIdentifier(schema)}.ducklake_${name}`;
}

/** Extensions of DuckDB, by the names of their files. */
export function neededExtensions(options: Pick<DucklakeOptions, 'catalog' | 'dataUrl' | 'accessKeyId'>): string[] {
  const { type } = catalogOf(options);
  return [
    'ducklake',
    ...(type === 'postgres' ? ['postgres_scanner'] : []),
    ...(type === 'sqlite' ? ['sqlite_scanner'] : []),
    ...(options.dataUrl === undefined ? [] : ['httpfs']),
    ...(options.dataUrl !== undefined && options.accessKeyId === undefined ? ['aws'] : []),
  ];
}

/** A value of libpq's connection string. */
function setting(name: string, value: string): string {
  return `${name}='${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/**
 * libpq's connection string, without the password: errors quote it. Undefined for a catalog in a file.
 * @param roots makes a file of authorities, for a certificate that must be verified although the URL names none
 * @throws {CdsyncError} `destination_plaintext`
 */
export async function connectionString(
  options: DucklakeOptions,
  destination: string,
  roots: () => Promise<string>,
): Promise<string | undefined> {
  const catalog = catalogOf(options);
  if (catalog.type !== 'postgres') return undefined;
  const { searchParams, port, pathname, username } = withPostgresTls(catalog.url, catalog.host, options.tls);
  const mode = searchParams.get('sslmode');
  if (mode === 'verify-full' && !searchParams.has('sslrootcert')) searchParams.set('sslrootcert', await roots());
  const certificates = ['sslrootcert', 'sslcert', 'sslkey'].flatMap((name) => {
    const value = searchParams.get(name);
    return value === null ? [] : [setting(name, value)];
  });
  return [
    setting('host', catalog.host.replace(/^\[(.*)\]$/, '$1')),
    setting('port', port || '5432'),
    ...(pathname.length > 1 ? [setting('dbname', decodedLogin(pathname.slice(1)))] : []),
    ...(username === '' ? [] : [setting('user', decodedLogin(username))]),
    setting('sslmode', mode === 'no-verify' ? 'require' : (mode ?? 'prefer')),
    ...certificates,
    setting('application_name', `cdsync ${destination}`),
    setting('connect_timeout', '15'),
    // A server that has gone silently is noticed after a minute.
    setting('tcp_user_timeout', '60000'),
  ].join(' ');
}

/** The password of PostgreSQL. */
export function passwordOf(options: DucklakeOptions): string {
  const catalog = catalogOf(options);
  if (catalog.type !== 'postgres') return '';
  return options.password?.reveal() ?? decodedLogin(catalog.url.password);
}

/** Statements that give DuckDB its logins. They hold secrets: show neither them nor DuckDB's response. */
export function loginStatements(options: DucklakeOptions): string[] {
  const password = passwordOf(options);
  return [
    ...(catalogOf(options).type === 'postgres'
      ? [`CREATE OR REPLACE TEMPORARY SECRET ${postgresSecret} (TYPE postgres, PASSWORD ${sqlText(password)})`]
      : []),
    ...(options.dataUrl === undefined
      ? []
      : [
          duckdbS3Secret('cdsync_data', options, options.dataUrl),
          // Parts of an upload are a ten-thousandth of this: DuckDB's own size makes them 80 MB, more than some stores take.
          "SET s3_uploader_max_filesize = '50GB'",
        ]),
  ];
}

/** The folder or prefix of the data as DuckLake keeps it: with a slash at its end. */
export function dataPlace({ dataPath, dataUrl }: Pick<DucklakeOptions, 'dataPath' | 'dataUrl'>): string | undefined {
  const place = dataUrl ?? dataPath;
  return place === undefined ? undefined : `${place.replace(/(?<!\/)\/+$/, '')}/`;
}

/** How to attach a lake. `look` changes nothing, `use` needs a lake that is there, `create` makes it. */
export type Purpose = 'look' | 'use' | 'create';

/** The statement that attaches the lake. @param connection of {@link connectionString}, for PostgreSQL */
export function attachStatement(options: DucklakeOptions, purpose: Purpose, connection: string | undefined): string {
  const catalog = catalogOf(options);
  const target =
    catalog.type === 'postgres'
      ? `postgres:${connection}`
      : `${catalog.type === 'sqlite' ? 'sqlite:' : ''}${catalog.file}`;
  const data = dataPlace(options);
  const settings = [
    // All rows are Parquet, which also holds values that a catalog could not, such as U+0000 in PostgreSQL.
    'DATA_INLINING_ROW_LIMIT 0',
    purpose === 'create' ? `DATA_PATH ${sqlText(data ?? '')}` : 'CREATE_IF_NOT_EXISTS false',
    ...(purpose === 'look' ? ['READ_ONLY'] : []),
    ...(catalog.type === 'postgres' ? [`META_SECRET ${sqlText(postgresSecret)}`] : []),
    ...(options.catalogSchema === undefined ? [] : [`METADATA_SCHEMA ${sqlText(options.catalogSchema)}`]),
    // Readers do not keep writers out then.
    ...(catalog.type === 'sqlite' && purpose !== 'look' ? ["META_JOURNAL_MODE 'WAL'", 'META_BUSY_TIMEOUT 10000'] : []),
  ];
  return `ATTACH IF NOT EXISTS ${sqlText(`ducklake:${target}`)} AS ${lake} (${settings.join(', ')})`;
}

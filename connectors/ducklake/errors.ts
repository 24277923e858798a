import {
  CdsyncError,
  duckdbRefused,
  loadRefused,
  loginRefused,
  permissionMissing,
  printable,
  unavailable,
} from '../../src/sdk/index.js';

/** What an error may tell of a destination. */
export interface Told {
  /** Where the catalog is, without user and password. */
  readonly catalog: string;
  /** Removes secrets from a text. */
  readonly redact: (text: string) => string;
}

interface Cause {
  readonly cause: Error;
  readonly causeQuotesValues: true;
}

type Judge = (message: string, told: Told, cause: Cause) => CdsyncError | undefined;

/** PostgreSQL's own words about a connection: DuckDB and libpq put theirs before them. They name user and database, never a row. */
function ofServer(message: string): string {
  const words = /(?:FATAL|ERROR): +([^\n]+)/.exec(message)?.[1] ?? message.split(/ failed: |": /).at(-1) ?? '';
  return printable(words.split('\n')[0] ?? '');
}

/** PostgreSQL says `permission denied for table x`, a system only `Permission denied`. */
const ofPostgresRights = /permission denied for (\w+) "?([^\s"]+)|must be owner of/;

const login: Judge = (message, { catalog, redact }, cause) => {
  const refused =
    /password authentication failed|no pg_hba\.conf entry|(role|database) "[^"]*" does not exist|no password supplied/;
  if (refused.test(message)) {
    const hint = /database "/.test(message)
      ? 'create the database, or correct the URL'
      : 'check user and password of `catalog`';
    return loginRefused(`${catalog} refuses the login: ${redact(ofServer(message))}`, { ...cause, hint });
  }
  if (/does not support SSL|certificate|SSL error|sslrootcert/i.test(message) && /postgres/i.test(message))
    return loginRefused(`no encrypted connection to ${catalog}: ${redact(ofServer(message))}`, {
      ...cause,
      hint: 'for a certificate of a private authority, name its file in the URL: ?sslrootcert=…; `tls: required` checks no certificate, `tls: off` does not encrypt',
    });
  return undefined;
};

const ofCatalog: Judge = (message, { catalog }, cause) => {
  const versions = /catalog version is (\S+?), but the extension requires version (\S*\w)/.exec(message);
  if (versions !== null)
    return loadRefused(
      `the catalog in ${catalog} has version ${versions[1]}; this DuckDB needs version ${versions[2]}`,
      {
        ...cause,
        hint: 'save the catalog, then change it once from DuckDB: ATTACH … (AUTOMATIC_MIGRATION TRUE); or use the cdsync that wrote it',
      },
    );
  if (/not a DuckLake|file is not a database|not a valid DuckDB database|not an? (sqlite|SQLite)/i.test(message))
    return loadRefused(`${catalog} is no catalog of DuckLake`, {
      ...cause,
      hint: 'check `catalog`: the file is of another kind',
    });
  return undefined;
};

const ofStore: Judge = (message, _, cause) => {
  const isHttp = /HTTP (Error|GET|PUT|POST|HEAD|DELETE)|S3FileSystem|s3:\/\//i.test(message);
  if (!isHttp) return undefined;
  const status = Number(/(?:HTTP |code:? |\(|: )(\d{3})\b/.exec(message)?.[1] ?? 0);
  if (/InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken/.test(message) || status === 401)
    return loginRefused('the object store refuses the login', {
      ...cause,
      hint: 'check `access_key_id` and `secret_access_key`, or the credentials that the environment gives instead',
    });
  if (status === 403)
    return permissionMissing('the object store refuses access (403)', {
      ...cause,
      hint: 'these credentials need s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix',
    });
  if (/NoSuchBucket/.test(message) || (status === 404 && !/\.parquet/.test(message)))
    return loadRefused('there is no such bucket', {
      ...cause,
      hint: 'create it, or check `data_url`, `endpoint` and `region`',
    });
  if (status === 404)
    return loadRefused('a Parquet file of the lake is gone', {
      ...cause,
      hint: 'restore the bucket; `cdsync push --full` cannot',
    });
  if (status === 301 || status === 400)
    return loadRefused(`the object store refuses a request (${status})`, {
      ...cause,
      hint: "set `region` to the bucket's region",
    });
  return unavailable(`the object store is unavailable${status === 0 ? '' : ` (${status})`}`, cause);
};

const rights: Judge = (message, { catalog }, cause) => {
  const [found, what, name] = ofPostgresRights.exec(message) ?? [];
  if (found !== undefined) {
    const on = what === undefined ? '' : ` (${what} ${printable(name ?? '')})`;
    return permissionMissing(`${catalog}: permission denied${on}`, {
      ...cause,
      hint: "an owner can grant it: GRANT USAGE, CREATE ON SCHEMA …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA …: the catalog's schema",
    });
  }
  if (
    /permission denied|read-only|readonly database|operation not permitted|unable to open database file/i.test(message)
  )
    return permissionMissing('the catalog or the folder of the data may not be written', {
      ...cause,
      hint: 'check who owns the files and their folders, and run as that user',
    });
  if (/no space left|disk quota|max_temp_directory_size/i.test(message))
    return loadRefused('there is no space left for a load', {
      ...cause,
      hint: 'free space where the storage and the lake are',
    });
  return undefined;
};

const passing: Judge = (message, { catalog }, cause) => {
  if (/database is locked|Conflicting lock|set lock on file|being used by|already attached by/i.test(message))
    return unavailable(`${catalog} is in use by another process`, {
      ...cause,
      hint: 'close it there; only PostgreSQL serves several machines',
    });
  if (
    /Transaction conflict|write-write conflict|could not serialize|deadlock detected|duplicate key value|already exists/i.test(
      message,
    )
  )
    return unavailable('another process has changed the lake at the same time', cause);
  const gone =
    /Unable to connect to Postgres|connection to server|closed the connection|terminating connection|no connection to the server|could not (connect|receive|send)|SSL SYSCALL|connection not open|Connection (refused|reset|timed out)|shutting down|starting up|too many (clients|connections)|could not translate host/i;
  // A statement that fails without a word of PostgreSQL's, such as a ROLLBACK after it, has lost its connection.
  const isGone = gone.test(message) || /Failed to execute query ".*":\s*$/s.test(message);
  return isGone ? unavailable(`${catalog} cannot be reached, or has gone away`, cause) : undefined;
};

/** Any failure of DuckDB as an error of cdsync, without DuckDB's message: that may quote rows, and addresses of servers. */
export function lakeError(thrown: unknown, told: Told): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const cause: Cause = { cause: new Error(told.redact(message)), causeQuotesValues: true };
  for (const judge of [login, ofCatalog, ofStore, passing, rights]) {
    const error = judge(message, told, cause);
    if (error !== undefined) return error;
  }
  return duckdbRefused('DuckLake refused a statement', cause.cause);
}

/** Whether DuckLake says that there is no lake yet. */
export function isNoLake(thrown: unknown): boolean {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return /creating a new DuckLake is explicitly disabled/.test(message);
}

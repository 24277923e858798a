import {
  CdsyncError,
  duckdbRefused,
  type ErrorRow,
  errorByWords,
  loadRefused,
  loginRefused,
  permissionMissing,
  postgresEncryptionHint,
  printable,
  unavailable,
  wantsMemory,
} from '../../src/sdk/index.js';

/** The destination as errors show it. */
export interface ShownLake {
  /** Where the catalog is, without user and password. */
  readonly catalog: string;
  /** Removes secrets from a text. */
  readonly redact: (text: string) => string;
}

/** PostgreSQL's own words about a connection: DuckDB and libpq put theirs before them. They name user and database, never a row. */
function ofServer(message: string): string {
  const words = /(?:FATAL|ERROR): +([^\n]+)/.exec(message)?.[1] ?? message.split(/ failed: |": /).at(-1) ?? '';
  return printable(words.split('\n')[0] ?? '');
}

/** A message about the object store begins with `store`, and the status of HTTP if it has one. */
function marked(message: string): string {
  if (!/HTTP (Error|GET|PUT|POST|HEAD|DELETE)|S3FileSystem|s3:\/\//i.test(message)) return message;
  return `store ${/(?:HTTP |code:? |\(|: )(\d{3})\b/.exec(message)?.[1] ?? ''}: ${message}`;
}

/** DuckLake, DuckDB, libpq and PostgreSQL report by their words alone. */
function rowsFor({ catalog, redact }: ShownLake): ErrorRow[] {
  const refused = ({ input }: RegExpExecArray) => `${catalog} refuses the login: ${redact(ofServer(input))}`;
  const plain = ({ input }: RegExpExecArray) => `no encrypted connection to ${catalog}: ${redact(ofServer(input))}`;
  return [
    [/database "[^"]*" does not exist/, loginRefused, refused, 'create the database, or correct the URL'],
    [
      /password authentication failed|no pg_hba\.conf entry|role "[^"]*" does not exist|no password supplied/,
      loginRefused,
      refused,
      'check user and password of `catalog`',
    ],
    [
      /^(?=.*postgres).*(does not support SSL|certificate|SSL error|sslrootcert)/is,
      loginRefused,
      plain,
      postgresEncryptionHint,
    ],
    [
      /catalog version is (\S+?), but the extension requires version (\S*\w)/,
      loadRefused,
      ([, has, needed]) => `the catalog in ${catalog} has version ${has}; this DuckDB needs version ${needed}`,
      'save the catalog, then change it once from DuckDB: ATTACH … (AUTOMATIC_MIGRATION TRUE); or use the cdsync that wrote it',
    ],
    [
      /not a DuckLake|file is not a database|not a valid DuckDB database|not an? (sqlite|SQLite)/i,
      loadRefused,
      `${catalog} is no catalog of DuckLake`,
      'check `catalog`: the file is of another kind',
    ],
    [
      /^store (401|.*(InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken))/s,
      loginRefused,
      'the object store refuses the login',
      'check `access_key_id` and `secret_access_key`, or the credentials that the environment gives instead',
    ],
    [
      /^store 403/,
      permissionMissing,
      'the object store refuses access (403)',
      'these credentials need s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix',
    ],
    [
      /^store (404(?!.*\.parquet)|.*NoSuchBucket)/s,
      loadRefused,
      'there is no such bucket',
      'create it, or check `data_url`, `endpoint` and `region`',
    ],
    [
      /^store 404/,
      loadRefused,
      'a Parquet file of the lake is gone',
      'restore the bucket; `cdsync push --full` cannot',
    ],
    [
      /^store (301|400)/,
      loadRefused,
      ([, status]) => `the object store refuses a request (${status})`,
      "set `region` to the bucket's region",
    ],
    [
      /^store (\d*)/,
      unavailable,
      ([, status]) => `the object store is unavailable${status === '' ? '' : ` (${status})`}`,
    ],
    [
      /database is locked|Conflicting lock|set lock on file|being used by|already attached by/i,
      unavailable,
      `${catalog} is in use by another process`,
      'close it there; only PostgreSQL serves several machines',
    ],
    [
      /Transaction conflict|write-write conflict|could not serialize|deadlock detected|duplicate key value|already exists/i,
      unavailable,
      'another process has changed the lake at the same time',
    ],
    [
      /Unable to connect to Postgres|connection to server|closed the connection|terminating connection|no connection to the server|could not (connect|receive|send)|SSL SYSCALL|connection not open|Connection (refused|reset|timed out)|shutting down|starting up|too many (clients|connections)|could not translate host/i,
      unavailable,
      `${catalog} cannot be reached, or has gone away`,
    ],
    // A statement that fails without a word of PostgreSQL's, such as a ROLLBACK after it, has lost its connection.
    [/Failed to execute query ".*":\s*$/s, unavailable, `${catalog} cannot be reached, or has gone away`],
    // PostgreSQL says `permission denied for table x`, a system only `Permission denied`.
    [
      /permission denied for (\w+) "?([^\s"]+)|must be owner of/,
      permissionMissing,
      ([, what, name = '']) =>
        `${catalog}: permission denied${what === undefined ? '' : ` (${what} ${printable(name)})`}`,
      "an owner can grant it: GRANT USAGE, CREATE ON SCHEMA …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA …: the catalog's schema",
    ],
    [
      /permission denied|read-only|readonly database|operation not permitted|unable to open database file/i,
      permissionMissing,
      'the catalog or the folder of the data may not be written',
      'check who owns the files and their folders, and run as that user',
    ],
    [
      /no space left|disk quota|max_temp_directory_size/i,
      loadRefused,
      'there is no space left for a load',
      'free space where the storage and the lake are',
    ],
  ];
}

/** Any failure of DuckDB as an error of cdsync, without DuckDB's message: that may quote rows, and addresses of servers. */
export function lakeError(thrown: unknown, shown: ShownLake): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const cause = new Error(shown.redact(message));
  if (wantsMemory(cause)) return duckdbRefused('DuckLake refused a statement', cause);
  const error = errorByWords(rowsFor(shown), marked(message), { cause, causeQuotesValues: true });
  return error ?? duckdbRefused('DuckLake refused a statement', cause);
}

/** Whether DuckLake says that there is no lake yet. */
export function isNoLake(thrown: unknown): boolean {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return /creating a new DuckLake is explicitly disabled/.test(message);
}

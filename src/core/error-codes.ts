/**
 * How the engine handles an error:
 * - `configuration`: refused before any work; exit 2.
 * - `auth`: the service or a destination refused the caller; exit 4 if every failure of the run is of this kind.
 * - `retryable`: may succeed if tried again; the client and the destinations' runner retry it, for the rest it is fatal.
 * - `interrupted`: the caller asked to stop; exit 130.
 * - `locked`: another run has the job; exit 75.
 * - `fatal`: everything else; exit 1.
 */
export type ErrorKind = 'configuration' | 'auth' | 'retryable' | 'interrupted' | 'locked' | 'fatal';

interface ErrorType {
  /** Default: `fatal`. */
  readonly kind?: ErrorKind;
  /** The data that were read cause it: a reading that resumes from its checkpoint would only fail again. */
  readonly resumable?: false;
  /** It is about the words of a command line: their author sees it, so no channel is notified. */
  readonly notify?: false;
  /** It says why a delivery did not touch a table. */
  readonly refusesTable?: true;
  /** The next thing to do, in the imperative and with a command. `cdsync run` only if a run can help. */
  readonly next?: string;
}

const configuration = { kind: 'configuration' } as const;
const auth = { kind: 'auth' } as const;
const retryable = { kind: 'retryable' } as const;
const locked = { kind: 'locked' } as const;
const interrupted = { kind: 'interrupted' } as const;
const unresumable = { resumable: false } as const;
const refusesTable = { refusesTable: true } as const;
const ofCommandLine = { kind: 'configuration', notify: false } as const;

const toRuns = { next: 'see the runs, and what is held: cdsync status' } as const;
const toStream = { next: 'correct the stream in the configuration, then: cdsync check' } as const;
const toAddress = { next: 'correct `base_url` or the network, then: cdsync check' } as const;
const toService = { next: 'wait until the service answers: cdsync check' } as const;
const toProxy = { next: 'correct the proxy, then: cdsync check' } as const;
const toDisk = { next: 'free disk space, then: cdsync run' } as const;
const toKeyFile = { next: 'correct the file that the message names, then: cdsync check' } as const;
const toEnvFile = { next: 'correct the env file, then: cdsync check' } as const;
const toInstall = { next: 'install what the message names, then: cdsync check' } as const;
const toKey = { next: 'choose a unique key, then: cdsync check' } as const;
const toTable = { next: 'decide what happens to the table: cdsync push --dry-run' } as const;
const toFilter = { next: 'correct the filter, then: cdsync check' } as const;
const toReport = { next: 'see the cause with --verbose, and report it' } as const;

/**
 * Every code of an error, a held stream or a warning, in the order of docs/errors.md, which explains them; but for the guards
 * `max_deleted`, `unique` …, whose code is `guard_` and their name.
 */
const errorCodes = {
  // Command line and configuration
  usage: ofCommandLine,
  config_invalid: { ...configuration, next: 'correct the file, then: cdsync check' },
  template_invalid: { ...configuration, next: 'correct the template, then: cdsync check' },
  config_not_found: {
    ...configuration,
    next: 'write one: cdsync init; or try it without a service of your own: cdsync quickstart',
  },
  config_unreadable: { ...configuration, next: 'make the file readable, then: cdsync check' },
  config_unwritable: configuration,
  service_not_started: {},
  env_file_invalid: { ...configuration, ...toEnvFile },
  env_file_unreadable: { ...configuration, ...toEnvFile },
  job_not_found: { ...ofCommandLine, next: 'see the names: cdsync status --all' },
  stream_not_found: { ...ofCommandLine, next: 'see the names: cdsync status' },
  destination_not_found: { ...ofCommandLine, next: 'see the names: cdsync status' },
  proxy_invalid: { ...configuration, ...toProxy },
  run_not_found: { ...configuration, ...toRuns },
  partition_not_found: { ...configuration, next: 'see the parts: cdsync state show' },
  stream_circle: configuration,
  sql_failed: { next: 'correct the SQL, then: cdsync check' },
  sql_not_allowed: { ...configuration, next: 'correct the SQL, then: cdsync check' },

  // Login and permission
  unauthorized: auth,
  forbidden: auth,
  oauth_failed: auth,
  token_unusable: auth,

  // The service
  bad_request: { ...unresumable, ...toStream },
  not_found: { ...unresumable, ...toStream },
  method_not_allowed: toAddress,
  conflict: {},
  collection_unknown: { ...unresumable, ...toStream },
  index_not_found: { ...unresumable, ...toStream },
  index_ambiguous: toStream,
  too_many_requests: { ...retryable, ...toService },
  budget_unusable: { next: 'correct `budget` in the configuration, then: cdsync check' },
  service_unavailable: { ...retryable, ...toService },
  connection_lost: { ...retryable, ...toService },
  timeout: { ...retryable, ...toService },
  unreachable: { ...retryable, ...toAddress },
  tls_error: toAddress,
  proxy_failed: { ...retryable, ...toProxy },
  proxy_login: toProxy,
  redirected: toAddress,
  invalid_id: {},
  unsendable_request: {},
  response_too_large: { next: 'lower `page_size` or raise `resources.memory_mb`, then: cdsync run' },
  malformed_response: retryable,
  page_loop: unresumable,
  dead_token: unresumable,
  filter_ignored: { ...unresumable, ...toFilter },
  profile_not_found: {},
  workflow_failed: {},
  workflow_deadline: {},
  workflow_unclear: {},

  // Streams and guards
  empty_answer: {},
  column_unknown: {
    ...configuration,
    ...refusesTable,
    next: 'correct the name under `columns:`, then: cdsync check',
  },
  guard_column_unknown: {},
  column_name_taken: { ...unresumable, next: 'correct `columns:`, then: cdsync check' },
  column_unselected: {},
  no_rows: {},
  filter_empty: toFilter,
  total_missing: {},
  delete_unconfirmed: {},
  forgotten_returned: {},
  stream_unconfigured: {},
  key_not_found: { next: "compare with the keys of a stream: cdsync query 'from STREAM limit 5'" },
  not_held: { ...ofCommandLine, ...toRuns },
  held_outdated: toRuns,
  definition_changed: { next: 'if that is meant: cdsync run --accept' },
  salt_changed: { next: 'set the earlier salt; or, for new hashes everywhere: cdsync run --rekey' },
  contract_violated: { ...unresumable, next: 'compare the columns: cdsync check --contract' },
  dependency: {},
  key_missing: { ...unresumable, ...toKey },
  key_not_unique: { ...unresumable, ...toKey },
  key_file_invalid: toKeyFile,
  key_file_unreadable: toKeyFile,
  members_incomplete: { ...unresumable, next: 'do what the hint says, then: cdsync check' },
  total_mismatch: unresumable,
  unbalanced: unresumable,
  conversion_failed: toReport,

  // Destinations
  destination_login: auth,
  destination_permission: auth,
  destination_unavailable: retryable,
  destination_refused: { next: 'correct what the message names, then: cdsync push' },
  destination_columns: configuration,
  destination_tls: { next: 'correct the certificates of the destination, then: cdsync check' },
  destination_plaintext: configuration,
  metrics_shared: {},
  receiver_failed: {},
  destination_url: configuration,
  destination_ca_file: configuration,
  connector_failed: toReport,
  connector_package_missing: { ...configuration, ...toInstall },
  duckdb_extension_missing: { ...configuration, ...toInstall },
  partition_column: configuration,
  event_refused: {},
  table_not_ours: { ...refusesTable, ...toTable },
  table_taken: { ...refusesTable, ...toTable },
  table_altered: { ...refusesTable, ...toTable },
  table_changed: { ...refusesTable, next: 'find what else writes to the table, then: cdsync push --dry-run' },
  removal_owed: { next: 'allow cdsync to delete at the destination, then: cdsync push' },
  table_moved: retryable,
  mode_changed: { ...refusesTable, ...toTable },
  key_changed: { ...refusesTable, ...toTable },
  type_changed: { ...refusesTable, ...toTable },
  store_unknown: { ...refusesTable, ...toTable },
  storage_new: { ...refusesTable, ...toTable },
  changes_gone: { ...refusesTable, ...toTable },
  erasures_gone: { ...refusesTable, ...toTable },
  fenced: { next: 'find the other job that writes to the table, then: cdsync push --dry-run' },
  count_differs: retryable,
  delivery_differs: {},
  values_refused: { next: 'see them: cdsync rejects' },
  row_rejected: {},
  records_waiting: {},
  file_exists: { next: 'choose another name for the file, then: cdsync push' },
  file_unknown: {},
  records_refused: { next: 'correct the template or the rights at the receiver, then: cdsync push' },

  // Storage
  disk_short: toDisk,
  disk_full: toDisk,
  memory_exceeded: { next: 'raise `resources.memory_mb`, then retry' },
  memory_refused: { next: 'lift the limit, then: cdsync run' },
  output_failed: { next: 'see what was done: cdsync status' },
  storage_failed: { next: 'check the disk that the message names, then: cdsync run' },
  too_many_files: { next: 'raise the limit of open files (ulimit -n), then: cdsync run' },
  storage_permission: { next: 'give this user the rights that the message names, then: cdsync check' },
  storage_unsuitable: { next: 'set `storage` to a folder of a local disk, then: cdsync check' },
  storage_link: { next: 'remove the file that the message names, then: cdsync check' },
  storage_owner: { next: 'run as the owner of the storage folder, or set another `storage`, then: cdsync check' },
  storage_altered: { resumable: false, next: 'find out who can write the storage folder' },
  storage_newer: { next: 'update cdsync, then: cdsync status' },
  state_unreadable: { next: 'do what the message says (docs/recovery.md has more), then: cdsync verify' },
  manifest_unreadable: {},
  snapshot_incomplete: {},
  not_published: {},
  published_busy: {},
  superseded: locked,
  bucket_login: auth,
  bucket_permission: auth,
  bucket_refused: { next: 'correct `storage` in the configuration, then: cdsync check' },
  bucket_unavailable: retryable,
  bucket_unconditional: { ...configuration, next: 'choose a store with conditional writes, then: cdsync check' },
  bucket_object_changed: {},
  file_changed: {},
  bucket_older: {},
  cache_foreign: {},
  clock_off: {},
  locked,
  not_begun: interrupted,
  interrupted,
  database_failed: toReport,
  unexpected: toReport,

  // The local service
  port_in_use: { ...configuration, next: 'choose a free port: cdsync serve --port 0' },
  cannot_listen: { ...configuration, next: 'choose another address: cdsync serve --host 127.0.0.1' },
  service_state_unreadable: { ...configuration, next: 'move the state file away, then: cdsync serve' },
  seed_mismatch: { ...configuration, next: 'leave out --seed, or name another state file: cdsync serve --help' },
  control_refused: configuration,
} as const satisfies Readonly<Record<string, ErrorType>>;

export type ErrorCode = keyof typeof errorCodes;

export const allErrorCodes = Object.keys(errorCodes) as ErrorCode[];

/** The properties of a code; undefined for codes of external connectors. */
export function errorType(code: string): ErrorType {
  return Object.hasOwn(errorCodes, code) ? errorCodes[code as ErrorCode] : {};
}

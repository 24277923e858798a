const seeRuns = 'see the runs, and what is held: cdsync status';

/** The same words for several codes. */
function forEach(codes: readonly string[], words: string): Record<string, string> {
  return Object.fromEntries(codes.map((code) => [code, words]));
}

const ofStream = ['bad_request', 'not_found', 'index_not_found', 'index_ambiguous', 'collection_unknown'];
const ofAddress = ['unreachable', 'tls_error', 'redirected'];
const ofOutage = ['service_unavailable', 'connection_lost', 'timeout', 'too_many_requests'];
const ofProxy = ['proxy_failed', 'proxy_login', 'proxy_invalid'];
const ofDisk = ['disk_full', 'disk_short'];
const ofFolder = ['storage_permission', 'storage_owner', 'storage_link', 'storage_failed', 'storage_unsuitable'];
const ofKeyFile = ['key_file_invalid', 'key_file_unreadable'];
const ofTable = ['table_not_ours', 'table_taken', 'table_altered', 'table_changed', 'table_differs'];

const actions: Readonly<Record<string, string>> = {
  config_not_found: 'write one: cdsync init; or try it without a service of your own: cdsync quickstart',
  config_invalid: 'correct the file, then: cdsync check',
  run_not_found: seeRuns,
  not_held: seeRuns,
  held_outdated: seeRuns,
  partition_not_found: 'see the parts: cdsync state show',
  definition_changed: 'if that is meant: cdsync run --accept',
  salt_changed: 'set the earlier salt; or, for new hashes everywhere: cdsync run --rekey',
  memory_exceeded: 'raise `resources.memory_mb`, or sync fewer streams, then retry',
  state_unreadable: 'do what the message says (docs/recovery.md has more), then: cdsync verify',
  key_not_found: 'see how keys are written: cdsync query "show tables"',
  column_unknown: 'correct the name under `columns:`, then: cdsync check',
  column_name_taken: 'correct `columns:`, then: cdsync check',
  contract_violated: 'compare the columns: cdsync check --contract',
  sql_failed: 'correct the SQL, then: cdsync check',
  filter_ignored: 'correct the filter, then: cdsync check',
  filter_empty: 'correct the filter, then: cdsync check',
  members_incomplete: 'do what the hint says, then: cdsync check',
  response_too_large: 'lower `page_size` or raise `resources.memory_mb`, then: cdsync run',
  storage_newer: 'update cdsync, then: cdsync status',
  output_failed: 'see what was done: cdsync status',
  ...forEach(ofStream, 'correct the stream in the configuration, then: cdsync check'),
  ...forEach(ofAddress, 'correct `base_url` or the network, then: cdsync check'),
  ...forEach(ofOutage, 'wait until the service answers: cdsync check'),
  ...forEach(ofProxy, 'correct the proxy, then: cdsync check'),
  ...forEach(ofDisk, 'free disk space, then: cdsync run'),
  ...forEach(ofFolder, 'correct the storage folder, then: cdsync check'),
  ...forEach(ofKeyFile, 'correct the file that the message names, then: cdsync check'),
  ...forEach(['key_missing', 'key_not_unique'], 'choose a unique key, then: cdsync check'),
  ...forEach(ofTable, 'decide what happens to the table: cdsync push --dry-run'),
  ...forEach(['unexpected', 'database_failed', 'conversion_failed'], 'see the cause with --verbose, and report it'),
};

/** The next thing to do after an error, in the imperative and with a command. `cdsync run` only if a run can help; undefined if it depends on more than the code. */
export function actionFor(code: string): string | undefined {
  return Object.hasOwn(actions, code) ? actions[code] : undefined;
}

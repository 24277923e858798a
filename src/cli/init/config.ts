import { visibleJson } from '../../core/printable.js';
import { onOneLine } from '../../output/discovery.js';
import type { AuthPart, ServicePart } from '../service-from-flags.js';

/** A stream of the configuration that `cdsync init` writes. */
export interface PlannedStream {
  readonly name: string;
  readonly source: 'index_profiles' | 'segment_members';
  /** Id or name of the index, or id of the segment. */
  readonly of: string;
  /** The service's description of it, if any. */
  readonly about: string | null;
  /** The attributes that it has now; none if they are not known. */
  readonly select?: readonly string[];
}

/** The contents of the configuration that `cdsync init` writes. */
export interface ConfigPlan {
  readonly service: ServicePart;
  readonly storage: string;
  readonly job: string;
  readonly streams: readonly PlannedStream[];
  /** Streams that were not chosen; the configuration shows them as comments. */
  readonly others: readonly PlannedStream[];
}

/** Text that YAML would not read as text unless it is quoted. */
const otherThanText = /^(true|false|null|yes|no|on|off|y|n)$/i;

/** A text as a YAML scalar, escaped so that no variable in it is replaced. */
function yamlText(text: string): string {
  const plain = /^(?:[A-Za-z]|\.{0,2}\/)[\w./:-]*$/.test(text) && !/:$/.test(text) && !otherThanText.test(text);
  return plain ? text : visibleJson(JSON.stringify(text.toWellFormed().replaceAll('$', '$$$$')));
}

const authLines: Record<'token' | 'oauth' | 'token_file', (auth: AuthPart) => string[]> = {
  token: () => [
    '# An access token of an API key; nothing renews it. Instead: client_id and client_secret for OAuth,',
    '# whose tokens cdsync renews in time, or token_file for a file that cdsync reads again when it changes.',
    `token: \${CDS_TOKEN}`,
  ],
  oauth: () => [
    '# OAuth credentials of an API key; cdsync renews their tokens in time. Instead: token, or token_file.',
    `client_id: \${CDS_CLIENT_ID}`,
    `client_secret: \${CDS_CLIENT_SECRET}`,
  ],
  token_file: (auth) => [
    '# A file that holds an access token; cdsync reads it again when it changes. Instead: token, or client_id and client_secret.',
    `token_file: ${yamlText('token_file' in auth ? auth.token_file : '')}`,
  ],
};

function authPartLines(auth: AuthPart): string[] {
  const form = 'token' in auth ? 'token' : 'token_file' in auth ? 'token_file' : 'oauth';
  return authLines[form](auth);
}

/** A header's name if it was set, otherwise its default as a comment. */
function header(key: string, fromFlag: string | undefined, fallback: string): string {
  return fromFlag === undefined || fromFlag === fallback ? `# ${key}: ${fallback}` : `${key}: ${yamlText(fromFlag)}`;
}

function serviceLines(part: ServicePart): string[] {
  const { base_url, tenant_id, tenant_header, oauth_tenant_header, oauth_token_url, allow_http, auth } = part;
  return [
    'service:',
    '  # Without the prefixes /api and /prof, which cdsync adds.',
    `  base_url: ${yamlText(base_url)}`,
    '  # A sandbox has its own id and its own API keys.',
    `  tenant_id: ${yamlText(tenant_id)}`,
    '  # The headers that carry tenant_id; their real names contain the brand of the service.',
    `  ${header('tenant_header', tenant_header, 'service-tenant')}`,
    `  ${header('oauth_tenant_header', oauth_tenant_header, 'X-Service-Tenant')}`,
    ...(allow_http ? ['  allow_http: true'] : []),
    ...(oauth_token_url === undefined ? [] : [`  oauth_token_url: ${yamlText(oauth_token_url)}`]),
    '  auth:',
    ...authPartLines(auth).map((line) => `    ${line}`),
    '  # Requests a second. The limit holds for the tenant and its sandboxes together: leave some for other clients.',
    '  # rate_limits: { profile: 2000, management: 10, realtime: 200 }',
    '  # Records in one page.',
    '  # page_size: 500',
  ];
}

const keyOf = { index_profiles: 'index', segment_members: 'segment' } as const;

function streamLines({ name, source, of, about, select = [] }: PlannedStream): string[] {
  const said = about === null ? '' : onOneLine(about);
  return [
    ...(said === '' ? [] : [`# ${said}`]),
    `- name: ${yamlText(name)}`,
    `  source: ${source}`,
    `  ${keyOf[source]}: ${yamlText(of)}`,
    ...(select.length === 0
      ? []
      : [
          '  # Only these attributes are stored; a new one is reported. Without this line, all are.',
          `  select: [${select.map(yamlText).join(', ')}]`,
        ]),
  ];
}

const indexOptions = [
  '  # Only profiles whose attributes equal these values; cdsync discover --filters shows the attributes to filter by.',
  '  # filter: { country: DE }',
  '  # Reads the index in parts, several at a time, by the values of a filterable attribute: faster for large indexes.',
  '  # partition_by: auto',
  '  # 0 allows the stream to become empty.',
  '  # guards: { min_rows: 0 }',
];

function streamsLines(streams: readonly PlannedStream[]): string[] {
  const explained = streams.find(({ source }) => source === 'index_profiles');
  return streams.flatMap((stream, index) => [
    ...(index === 0 ? [] : ['']),
    ...streamLines(stream),
    ...(stream === explained ? indexOptions : []),
  ]);
}

function otherLines(others: readonly PlannedStream[]): string[] {
  if (others.length === 0) return [];
  const entries = others.map(
    ({ name, source, of }) =>
      `# - { name: ${yamlText(name)}, source: ${source}, ${keyOf[source]}: ${JSON.stringify(of.replaceAll('$', '$$$$'))} }`,
  );
  return ['', '# Other streams that you could read:', ...entries.map(onOneLine)];
}

/** A configuration as commented YAML that runs as it is; the secrets stay in the environment. */
export function configText({ service, storage, job, streams, others }: ConfigPlan): string {
  const lines = [
    '# The streams that cdsync reads from the Customer Data Service, and where it writes. All options and defaults: cdsync schema --docs',
    `# Variables such as \${CDS_TOKEN} come from the environment, or from a file: --env-file PATH`,
    'version: 1',
    '',
    ...serviceLines(service),
    '',
    '# The folder for all data, with one folder per job; relative to this file.',
    `storage: ${yamlText(storage)}`,
    '',
    '# The memory of the process, and the threads that DuckDB may use.',
    '# resources: { memory_mb: 768, threads: 2 }',
    '',
    'jobs:',
    '  # Each job has its own lock, snapshots and files. With several jobs, choose one: cdsync run --job NAME',
    `  ${yamlText(job)}:`,
    '    # Text becomes a number, a boolean, a date or a time if every text of its column can be given back exactly.',
    '    # To keep text as text: strings: keep',
    '    strings: infer',
    '    streams:',
    ...[...streamsLines(streams), ...otherLines(others)].map((line) => (line === '' ? '' : `      ${line}`)),
    '',
    '    # A run with more changes than this is held until you decide: cdsync approve, or cdsync discard.',
    '    # guards: { max_deleted: 10%, max_changed: 50%, max_rejected: 0 }',
    '    # A run that was cut short is resumed by the next one, if it begins within this time.',
    '    # resume_within: 12h',
    '    # zstd gives the smallest files; every reader knows snappy.',
    '    # parquet: { compression: zstd }',
    '    # Who may open the published files, by default their owner alone; how far back the history reaches.',
    '    # publish: { mode: "0640", history: 30d }',
    '    # How many old snapshots, and for how long old changes, stay as Parquet files.',
    '    # keep: { snapshots: 3, changes: 90d }',
  ];
  return `${lines.join('\n')}\n`;
}

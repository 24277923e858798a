import { onOneLine } from '../../report/discovery.js';
import type { AuthPart, ServicePart } from '../service-from-flags.js';

/** A stream of the configuration that is to be written. */
export interface PlannedStream {
  readonly name: string;
  readonly source: 'index_profiles' | 'segment_members';
  /** Id or name of the index, or id of the segment. */
  readonly of: string;
  /** What the service says of it, if anything. */
  readonly about: string | null;
}

/** What a configuration is to say. */
export interface ConfigPlan {
  readonly service: ServicePart;
  readonly storage: string;
  readonly job: string;
  readonly streams: readonly PlannedStream[];
  /** Could be read as well: shown as comments. */
  readonly others: readonly PlannedStream[];
}

/** Text that YAML would read as something else, were it not quoted. */
const otherThanText = /^(true|false|null|yes|no|on|off|y|n)$/i;

/** A text as a YAML scalar in which no variable is replaced. */
export function yamlText(text: string): string {
  const plain = /^(?:[A-Za-z]|\.{0,2}\/)[\w./:-]*$/.test(text) && !/:$/.test(text) && !otherThanText.test(text);
  return plain ? text : JSON.stringify(text.toWellFormed().replaceAll('$', '$$$$'));
}

const authLines: Record<'token' | 'oauth' | 'token_file', (auth: AuthPart) => string[]> = {
  token: () => [
    '# An access token of an API key, as it was issued; nothing renews it. Instead: client_id and client_secret for OAuth,',
    '# whose tokens are renewed in time, or token_file for a file that is read again whenever it has changed.',
    `token: \${CDS_TOKEN}`,
  ],
  oauth: () => [
    '# OAuth credentials of an API key; their tokens are renewed in time. Instead: token, or token_file.',
    `client_id: \${CDS_CLIENT_ID}`,
    `client_secret: \${CDS_CLIENT_SECRET}`,
  ],
  token_file: (auth) => [
    '# A file that holds an access token, read again whenever it has changed. Instead: token, or client_id and client_secret.',
    `token_file: ${yamlText('token_file' in auth ? auth.token_file : '')}`,
  ],
};

function authPartLines(auth: AuthPart): string[] {
  const form = 'token' in auth ? 'token' : 'token_file' in auth ? 'token_file' : 'oauth';
  return authLines[form](auth);
}

/** A header's name where it was given, and otherwise its default as a comment. */
function header(key: string, given: string | undefined, fallback: string): string {
  return given === undefined || given === fallback ? `# ${key}: ${fallback}` : `${key}: ${yamlText(given)}`;
}

function serviceLines({ base_url, tenant_id, tenant_header, oauth_tenant_header, auth }: ServicePart): string[] {
  return [
    'service:',
    '  # Without the prefixes /api and /prof, which cdsync adds.',
    `  base_url: ${yamlText(base_url)}`,
    '  # A sandbox has an id of its own, and API keys of its own.',
    `  tenant_id: ${yamlText(tenant_id)}`,
    '  # The headers that carry it; their real names have the brand of the service in them.',
    `  ${header('tenant_header', tenant_header, 'service-tenant')}`,
    `  ${header('oauth_tenant_header', oauth_tenant_header, 'X-Service-Tenant')}`,
    '  auth:',
    ...authPartLines(auth).map((line) => `    ${line}`),
    '  # Requests a second. The limit holds for the tenant and its sandboxes together: leave room for whoever else asks.',
    '  # rate_limits: { profile: 2000, management: 10, realtime: 200 }',
    '  # Records asked for in one page.',
    '  # page_size: 500',
  ];
}

const keyOf = { index_profiles: 'index', segment_members: 'segment' } as const;

function streamLines({ name, source, of, about }: PlannedStream): string[] {
  const said = about === null ? '' : onOneLine(about);
  return [
    ...(said === '' ? [] : [`# ${said}`]),
    `- name: ${yamlText(name)}`,
    `  source: ${source}`,
    `  ${keyOf[source]}: ${yamlText(of)}`,
  ];
}

const indexOptions = [
  '  # Only profiles whose attributes equal these values; cdsync discover --filters tells what can be filtered.',
  '  # filter: { country: DE }',
  '  # Reads the index in parts, several at a time, by the values of a filterable attribute: faster where there is much.',
  '  # partition_by: { attribute: country }',
  '  # 0 lets the stream come back empty after a run in which it was not.',
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
  return ['', '# What could be read as well:', ...entries.map(onOneLine)];
}

/** A configuration as commented YAML that runs as it is; the secrets stay in the environment. */
export function configText({ service, storage, job, streams, others }: ConfigPlan): string {
  const lines = [
    '# What cdsync reads from the Customer Data Service, and where to. Every option, with its default: cdsync schema --docs',
    `# Variables such as \${CDS_TOKEN} come from the environment, or from a file: --env-file PATH`,
    'version: 1',
    '',
    ...serviceLines(service),
    '',
    '# Everything that is kept and published, a folder for each job; relative to this file.',
    `storage: ${yamlText(storage)}`,
    '',
    '# What DuckDB may use of this machine.',
    '# resources: { memory_mb: 768, threads: 2 }',
    '',
    'jobs:',
    '  # A job has its own lock, snapshots and files; cdsync run --job tells several apart.',
    `  ${yamlText(job)}:`,
    '    streams:',
    ...[...streamsLines(streams), ...otherLines(others)].map((line) => (line === '' ? '' : `      ${line}`)),
    '',
    '    # More than this holds a run back until somebody has looked at it: cdsync approve, or cdsync discard.',
    '    # guards: { max_deleted: 10%, max_changed: 50%, max_rejected: 0 }',
    '    # A run that was cut short is gone on with by one that begins within this time.',
    '    # resume_within: 12h',
    '    # zstd gives the smallest files; every reader knows snappy.',
    '    # parquet: { compression: zstd }',
    '    # Who may open what is published, by default its owner alone; how far back its history reaches.',
    '    # publish: { mode: "0600", history: 30d }',
    '    # How much of the past stays as Parquet files.',
    '    # keep: { snapshots: 3, changes: 90d }',
  ];
  return `${lines.join('\n')}\n`;
}

import {
  choice,
  extensionsOption,
  flag,
  memoryOption,
  type OptionProblem,
  option,
  s3Options,
  secret,
  text,
  verbatim,
  whole,
  z,
} from '../../src/sdk/index.js';
import { parsePartition } from './partition.js';

const httpUrl = /^https?:\/\/[^\s@?#]+$/;
const urlWords = 'a URL that begins with https:// or http://, without login and query';

export const icebergOptions = {
  catalog: option(z.string().regex(httpUrl), {
    description: "URL of the Iceberg REST catalog: the part before `/v1` in the catalog's addresses.",
    example: 'https://catalog.example.com/api/catalog',
    allowed: urlWords,
  }),
  warehouse: verbatim({
    description:
      'Name of the warehouse, if the catalog has several. The catalog says where the data of a warehouse lies.',
    example: 'analytics',
  }).optional(),
  namespace: text({
    description: 'Namespace of the tables. Write the levels of a nested one with dots between them.',
    example: 'crm.cdp',
  }),
  create_namespace: flag({
    description: 'Whether cdsync makes the namespace if it is missing.',
    example: true,
  }).prefault(false),
  token: secret(/^\S+$/, { description: 'Token for the catalog.', example: '${CATALOG_TOKEN}' }).optional(),
  client_id: verbatim({
    description: 'Client id, with which cdsync gets a token (OAuth 2, client credentials).',
    example: '${CATALOG_CLIENT_ID}',
  }).optional(),
  client_secret: secret(/^\S+$/, {
    description: 'The secret of that client.',
    example: '${CATALOG_CLIENT_SECRET}',
  }).optional(),
  oauth_url: option(z.string().regex(httpUrl), {
    description: 'Where to get tokens. Default: `/v1/oauth/tokens` of the catalog.',
    example: 'https://login.example.com/oauth2/token',
    allowed: urlWords,
  }).optional(),
  scope: text({ description: 'Scope of the tokens.', example: 'PRINCIPAL_ROLE:ALL' }).prefault('PRINCIPAL_ROLE:ALL'),
  allow_http: flag({
    description: 'Whether a token may go to another machine without encryption.',
    example: true,
  }).prefault(false),
  format_version: whole(2, 3, {
    description: 'Format of new tables. Existing tables keep theirs.',
    example: 3,
  }).prefault(2),
  partition_by: option(
    z.array(
      option(
        z.string().refine((written) => parsePartition(written) !== undefined),
        {
          description: 'A column, or a function of one.',
          example: 'bucket(id, 16)',
          allowed:
            'a column, bucket(column, N), truncate(column, N), year(column), month(column), day(column) or hour(column)',
        },
      ),
    ),
    {
      description:
        'How new tables are partitioned: by columns, under their names in the destination, and by `bucket(column, N)`, `truncate(column, N)`, `year`, `month`, `day` or `hour` of a column. Existing tables keep theirs.',
      example: ['bucket(id, 16)', 'day(updated_at)'],
      allowed: 'a list of columns and functions of columns',
    },
  ).prefault([]),
  sort: option(z.array(text({ description: 'A column, under its name in the destination.', example: 'id' })), {
    description:
      'Columns that new files are sorted by, and the sort order of new tables. Default: the key; in mode `append`, none. An empty list: none.',
    example: ['country', 'id'],
    allowed: 'a list of columns',
  }).optional(),
  credentials: choice(['catalog', 'environment'], {
    description:
      'Who gives the login for the object store, if there is no `access_key_id`: the catalog (vended credentials), or the places that every AWS tool uses.',
    example: 'environment',
  }).prefault('catalog'),
  ...s3Options,
  region: text({ description: "The bucket's region.", example: 'eu-central-1' }).optional(),
  endpoint: option(z.string().regex(/^https?:\/\/[^\s/@?#]+\/?$/), {
    description: 'The URL of the object store, if it is not AWS and the catalog does not say it.',
    example: 'https://minio.example.com:9000',
    allowed: 'a URL of a host, without path and without login',
  }).optional(),
  access_key_id: verbatim({
    description: 'Id of the access key for the object store.',
    example: '${AWS_ACCESS_KEY_ID}',
  }).optional(),
  memory_mb: memoryOption('to merge and write files', { least: 128, example: 2048 }),
  extensions: extensionsOption,
};

export type IcebergShape = typeof icebergOptions;

const ofStore = ['endpoint', 'region', 'session_token', 'path_style'];

/** Rules between the options. */
export function checkIceberg(value: unknown): OptionProblem[] {
  const options = value as Readonly<Record<string, unknown>>;
  const has = (key: string) => options[key] !== undefined;
  const findings: OptionProblem[] = [];
  const refuse = (where: string[], message: string) => findings.push({ path: where, message });
  if (has('token') && has('client_id')) refuse([], 'give `token`, or `client_id` and `client_secret`, not both');
  if (has('client_id') !== has('client_secret')) refuse([], 'give both `client_id` and `client_secret`, or neither');
  for (const key of ['oauth_url', 'scope'].filter(has)) if (!has('client_id')) refuse([key], 'needs `client_id`');
  if (has('access_key_id') !== has('secret_access_key'))
    refuse([], 'give both `access_key_id` and `secret_access_key`, or neither');
  if (has('access_key_id') && has('credentials')) refuse(['credentials'], 'is of no use with `access_key_id`');
  const ownLogin = has('access_key_id') || options.credentials === 'environment';
  for (const key of ofStore.filter(has))
    if (!ownLogin) refuse([key], 'needs `access_key_id`, or `credentials: environment`');
  return findings;
}

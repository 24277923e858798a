import {
  choice,
  extensionsOption,
  map,
  memoryOption,
  type OptionProblem,
  option,
  passwordOption,
  path,
  s3Options,
  s3Rules,
  schemaOption,
  secret,
  text,
  verbatim,
  z,
} from '../../src/sdk/index.js';

const catalog = option(
  map({
    postgres: secret(/^postgres(ql)?:\/\/\S+$/, {
      description:
        'A database of PostgreSQL: for several machines at once. `sslrootcert=`, `sslcert=` and `sslkey=` name certificates; for the rest of TLS see `tls`.',
      example: 'postgres://loader:…@catalog.example.com:5432/lake',
      allowed: 'a URL that begins with postgres://',
    }).optional(),
    duckdb: path({
      description:
        'A DuckDB file, which cdsync makes if it is missing. No other process may have it open during a load.',
      example: './lake.ducklake',
    }).optional(),
    sqlite: path({
      description: 'A SQLite file, which cdsync makes if it is missing: for several processes of one machine.',
      example: './lake.sqlite',
    }).optional(),
  }),
  {
    description: "The lake's catalog: what tables there are, which files they have, and every snapshot.",
    example: { duckdb: './lake.ducklake' },
    forms: [['postgres'], ['duckdb'], ['sqlite']],
  },
);

export const ducklakeOptions = {
  catalog,
  catalog_schema: text({
    description:
      'Of PostgreSQL: schema of the catalog. A database may have several lakes, each in its own. Default: `public`.',
    example: 'lake',
  }).optional(),
  password: passwordOption(
    'The password for PostgreSQL, if it is not in the URL. In the URL, write special characters as %xx.',
    '${LAKE_PASSWORD}',
  ),
  tls: choice(['verify', 'required', 'off'], {
    description:
      'Whether to encrypt the connection to PostgreSQL, and whether to check the certificate (`verify`). Default: what `sslmode` of the URL says, else `verify`; on a loopback address or a Unix socket `off`. Without it, `sslmode=disable` is refused for other machines.',
    example: 'required',
  }).optional(),
  data_path: path({
    description:
      'Folder of the Parquet files. cdsync makes it if it is missing. A lake that is there knows its own; leave it out then, or give the same.',
    example: './lake',
  }).optional(),
  data_url: option(z.string().regex(/^s3:\/\/[a-z0-9][a-z0-9.-]+(\/[^\s?#]*)?$/), {
    description: 'Bucket and prefix of the Parquet files, instead of `data_path`.',
    example: 's3://crm-lake/cdsync',
    allowed: 's3://bucket or s3://bucket/prefix',
  }).optional(),
  schema: schemaOption('main'),
  memory_mb: memoryOption('to load', { example: 2048 }),
  extensions: extensionsOption,
  ...s3Options,
  region: text({ description: "The bucket's region.", example: 'eu-central-1' }).optional(),
  access_key_id: verbatim({
    description:
      'Id of the access key. Without it, credentials come from the places that every AWS tool uses; DuckDB then needs its extension `aws`, too.',
    example: '${AWS_ACCESS_KEY_ID}',
  }).optional(),
};

export type DucklakeShape = typeof ducklakeOptions;

const ofStores = Object.keys(s3Options);
const ofPostgres = ['catalog_schema', 'password', 'tls'];

/** Rules between the options. */
export function checkDucklake(value: unknown): OptionProblem[] {
  const options = value as Readonly<Record<string, unknown>>;
  const has = (key: string) => options[key] !== undefined;
  const findings: OptionProblem[] = [];
  const refuse = (where: string[], message: string) => findings.push({ path: where, message });
  if (has('data_path') && has('data_url'))
    refuse(['data_url'], 'give `data_path` or `data_url`, not both: it says where the files go');
  if (!has('data_url')) for (const key of ofStores.filter(has)) refuse([key], 'needs `data_url`, which is not given');
  const isPostgres = typeof options.catalog === 'object' && options.catalog !== null && 'postgres' in options.catalog;
  if (has('catalog') && !isPostgres)
    for (const key of ofPostgres.filter(has)) refuse([key], 'only a catalog in PostgreSQL has it');
  findings.push(...s3Rules(options));
  return findings;
}

import { flag, option, passwordOption, text, verbatim, whole, z } from '../../src/sdk/index.js';

const property = option(z.string(), { description: 'The value of one property.', example: '2h' });

export const trinoOptions = {
  url: option(z.string().regex(/^https?:\/\/[^\s@?#/]+\/?$/), {
    description: 'The coordinator of Trino. User and password are options of their own.',
    example: 'https://trino.example.com:8443',
    allowed: 'scheme, host and port: http:// or https://, no path',
  }),
  username: verbatim({ description: 'The user.', example: 'loader' }).prefault('cdsync'),
  password: passwordOption('The password, for Trino with password authentication.', '${TRINO_PASSWORD}'),
  token: passwordOption(
    'A JSON Web Token or an OAuth 2.0 access token, instead of a password. It must live as long as the load.',
    '${TRINO_TOKEN}',
  ),
  allow_http: flag({
    description:
      'Whether the password or token may go to another machine over http://, where everybody on the way can read it and all rows. A loopback address needs no permission.',
    example: true,
  }).prefault(false),
  catalog: verbatim({ description: 'The catalog of the tables, as SHOW CATALOGS lists it.', example: 'lake' }),
  schema: verbatim({ description: 'The schema of the tables. cdsync creates it if it is missing.', example: 'crm' }),
  session: option(z.record(z.string().regex(/^[A-Za-z0-9_.-]+$/), property), {
    description: 'Session properties of Trino by name; those of a catalog begin with its name and a dot.',
    example: { query_max_run_time: '2h', 'lake.target_max_file_size': '256MB' },
    allowed: 'a map of property names and texts',
  }).prefault({}),
  staging_catalog: verbatim({
    description:
      'Another catalog for the staging tables, for example one that writes faster. Default: the catalog of the tables.',
    example: 'scratch',
  }).optional(),
  staging_schema: text({
    description: 'The schema of the staging tables. It must exist. Default: that of the tables.',
    example: 'tmp',
  }).optional(),
  statement_chars: whole(20_000, 1_000_000_000, {
    description:
      'Most characters in a statement: `query.max-length` of Trino, which is 1,000,000 unless it was changed. Values that need more become NULL.',
    example: 10_000_000,
    unit: 'characters',
  }).prefault(1_000_000),
};

/** At most one way to log in. */
export function checkOptions(value: unknown): { path: string[]; message: string }[] {
  const { password, token } = value as Record<string, unknown>;
  if (password === undefined || token === undefined) return [];
  return [{ path: ['token'], message: 'give `password` or `token`, not both' }];
}

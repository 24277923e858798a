import { passwordOption, path, secret, text, verbatim } from '../../src/sdk/index.js';

export const snowflakeOptions = {
  account: text({
    description: 'The account identifier: organization and account, joined by a hyphen. Not a URL.',
    example: 'acme-warehouse',
    allowed: 'an account identifier, without .snowflakecomputing.com',
  }),
  host: verbatim({
    description:
      'Where the account is reached, if not at `<account>.snowflakecomputing.com`: the host of a private link, or the URL of an emulator.',
    example: 'acme-warehouse.privatelink.snowflakecomputing.com',
  }).optional(),
  username: verbatim({ description: 'The user.', example: 'LOADER' }),
  private_key: secret(/-----BEGIN (ENCRYPTED )?PRIVATE KEY-----/, {
    description: 'The private key of a key pair, in PEM (PKCS #8). Snowflake recommends key pairs for machines.',
    example: '${SNOWFLAKE_PRIVATE_KEY}',
    allowed: 'PEM text that begins with -----BEGIN PRIVATE KEY-----',
  }).optional(),
  private_key_path: path({ description: 'A file with the private key.', example: './rsa_key.p8' }).optional(),
  private_key_passphrase: passwordOption(
    'The passphrase of the key, if it is encrypted.',
    '${SNOWFLAKE_KEY_PASSPHRASE}',
  ),
  token: passwordOption('A programmatic access token, instead of a key.', '${SNOWFLAKE_TOKEN}'),
  oauth_token: passwordOption(
    'An access token of OAuth, instead of a key. It must live as long as the load.',
    '${SNOWFLAKE_OAUTH_TOKEN}',
  ),
  password: passwordOption(
    'A password, instead of a key, for users who need no second factor.',
    '${SNOWFLAKE_PASSWORD}',
  ),
  database: verbatim({
    description: 'The database. It must exist. As in SQL: in quotes if its name is not in capitals.',
    example: 'CRM',
  }),
  schema: verbatim({
    description: 'The schema of the tables. It must exist. As in SQL, like the database.',
    example: 'CDP',
  }).prefault('PUBLIC'),
  warehouse: verbatim({
    description: "The virtual warehouse that does the work. Default: the user's.",
    example: 'LOAD_WH',
  }).optional(),
  role: verbatim({
    description: "The role of the session. Default: the user's.",
    example: 'LOADER',
  }).optional(),
};

/** The ways to log in; a configuration must give exactly one. */
export const logins = [['private_key'], ['private_key_path'], ['token'], ['oauth_token'], ['password']] as const;

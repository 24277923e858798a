import { secret, text } from '../../src/sdk/index.js';

export const postgresOptions = {
  url: secret(/^postgres(ql)?:\/\/\S+$/, {
    description:
      'The server, the user and the database. TLS as usual: `?sslmode=require`, or `verify-full` with `sslrootcert=`.',
    example: 'postgres://loader:…@warehouse.example.com:5432/crm',
    allowed: 'a URL that begins with postgres://',
  }),
  password: secret(/./s, {
    description: 'The password, if it is not in the URL. In the URL, write special characters as %xx.',
    example: '${WAREHOUSE_PASSWORD}',
  }).optional(),
  schema: text({ description: 'Schema of the tables. cdsync makes it if it is missing.', example: 'cdp' }).prefault(
    'public',
  ),
};

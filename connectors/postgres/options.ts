import { secret, text } from '../../src/sdk/index.js';

export const postgresOptions = {
  url: secret(/^postgres(ql)?:\/\/\S+$/, {
    description:
      'Where the server is and who logs in. TLS as usual: `?sslmode=require`, `verify-full` with `sslrootcert=`.',
    example: 'postgres://loader:…@warehouse.example.com:5432/crm',
    allowed: 'a URL that begins with postgres://',
  }),
  password: secret(/./s, {
    description: 'The password, where it is not in the URL (in which special characters are written as %xx).',
    example: '${WAREHOUSE_PASSWORD}',
  }).optional(),
  schema: text({ description: 'Schema of the tables; made where it is not there.', example: 'cdp' }).prefault('public'),
};

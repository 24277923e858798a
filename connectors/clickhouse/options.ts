import { flag, option, passwordOption, verbatim, z } from '../../src/sdk/index.js';

export const clickhouseOptions = {
  url: option(z.string().regex(/^https?:\/\/[^\s@?]+$/), {
    description: 'The HTTP interface of the server. User and password are options of their own.',
    example: 'https://abc.eu-central-1.aws.clickhouse.cloud:8443',
    allowed: 'a URL that begins with http:// or https://',
  }),
  username: verbatim({ description: 'The user.', example: 'loader' }).prefault('default'),
  password: passwordOption('The password.'),
  allow_http: flag({
    description:
      'Whether the password may go to another machine over http://, where everybody on the way can read it and all rows. A loopback address needs no permission.',
    example: true,
  }).prefault(false),
  database: verbatim({ description: 'The database of the tables. It must exist.', example: 'crm' }).prefault('default'),
};

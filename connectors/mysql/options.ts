import { choice, passwordOption, secret } from '../../src/sdk/index.js';

export const mysqlOptions = {
  url: secret(/^(mysql|mariadb):\/\/\S+\/\S+$/, {
    description:
      'The server, the user, and the database of the tables, which must exist. Write special characters of user and password as %xx.',
    example: 'mysql://loader:…@warehouse.example.com:3306/crm',
    allowed: 'a URL such as mysql://user:password@host:3306/database',
  }),
  password: passwordOption('The password, if it is not in the URL.'),
  tls: choice(['verify', 'required', 'off'], {
    description:
      'Whether to encrypt the connection, and whether to check the certificate (`verify`). Default: `verify`, and `off` on a loopback address. NODE_EXTRA_CA_CERTS adds an authority.',
    example: 'required',
  }).optional(),
};

import { choice, secret } from '../../src/sdk/index.js';

export const mysqlOptions = {
  url: secret(/^(mysql|mariadb):\/\/\S+\/\S+$/, {
    description:
      'Where the server is, who logs in, and the database of the tables, which must be there. Special characters of user and password are written as %xx.',
    example: 'mysql://loader:…@warehouse.example.com:3306/crm',
    allowed: 'a URL such as mysql://user:password@host:3306/database',
  }),
  password: secret(/./s, {
    description: 'The password, where it is not in the URL.',
    example: '${WAREHOUSE_PASSWORD}',
  }).optional(),
  tls: choice(['verify', 'required', 'off'], {
    description:
      'Whether the connection is encrypted, and whether the certificate is checked (`verify`). Left out: `verify`, and `off` on a loopback address. Node trusts further authorities by NODE_EXTRA_CA_CERTS.',
    example: 'required',
  }).optional(),
};

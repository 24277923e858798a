import { passwordOption, schemaOption } from '../connection-options.js';
import { choice, secret } from '../option.js';

export const postgresOptions = {
  url: secret(/^postgres(ql)?:\/\/\S+$/, {
    description:
      'The server, the user and the database. `sslrootcert=`, `sslcert=` and `sslkey=` name certificates; for the rest of TLS see `tls`.',
    example: 'postgres://loader:…@warehouse.example.com:5432/crm',
    allowed: 'a URL that begins with postgres://',
  }),
  password: passwordOption('The password, if it is not in the URL. In the URL, write special characters as %xx.'),
  tls: choice(['verify', 'required', 'off'], {
    description:
      'Whether to encrypt the connection, and whether to check the certificate (`verify`). Default: what `sslmode` of the URL says, else `verify`; on a loopback address or a Unix socket `off`. Without it, `sslmode=disable` is refused for other machines.',
    example: 'required',
  }).optional(),
  schema: schemaOption('public'),
};

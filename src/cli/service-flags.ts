import type { Argv } from 'yargs';
import { textOption } from './arguments.js';
import type { CommonArguments } from './output.js';

/** The service, given as flags instead of a configuration file. Secrets come only from the environment. */
export interface ServiceArguments extends CommonArguments {
  baseUrl?: string | undefined;
  tenantId?: string | undefined;
  tenantHeader?: string | undefined;
  oauthTenantHeader?: string | undefined;
  oauthTokenUrl?: string | undefined;
  auth?: 'token' | 'oauth' | 'token_file' | undefined;
  tokenFile?: string | undefined;
}

export function serviceOptions<T>(parser: Argv<T>) {
  return parser.options({
    'base-url': textOption('address of the service, without /api [default: $CDS_BASE_URL]'),
    'tenant-id': textOption('the tenant or sandbox [default: $CDS_TENANT_ID]'),
    'tenant-header': textOption('real name of the tenant header'),
    'oauth-tenant-header': textOption('the same at the token endpoint'),
    'oauth-token-url': textOption('the token endpoint, if it is on a host of its own'),
    auth: {
      choices: ['token', 'oauth', 'token_file'] as const,
      requiresArg: true,
      describe: 'log in with $CDS_TOKEN, with $CDS_CLIENT_ID and $CDS_CLIENT_SECRET, or with a file',
      defaultDescription: 'the one that is set',
    },
    'token-file': textOption('file that holds a token'),
  });
}

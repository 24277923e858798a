import { existsSync } from 'node:fs';
import type { Config } from '../config/config.js';
import { loadConfig } from '../config/load.js';
import { parseConfig } from '../config/parse.js';
import { ConfigError } from '../config/problem.js';
import type { Variables } from '../config/variables.js';
import type { CdsyncError } from '../core/errors.js';
import type { ServiceArguments } from './arguments.js';
import { defaultFile, environment } from './load.js';
import { usageError } from './output.js';

/** The `auth:` part of a configuration. */
export type AuthPart =
  | { readonly token: string }
  | { readonly client_id: string; readonly client_secret: string }
  | { readonly token_file: string };

/** Those options of a configuration's `service:` part that flags can give. */
export interface ServicePart {
  readonly base_url: string;
  readonly tenant_id: string;
  readonly tenant_header?: string;
  readonly oauth_tenant_header?: string;
  readonly oauth_token_url?: string;
  readonly allow_http?: true;
  readonly auth: AuthPart;
}

export const tokenAuth: AuthPart = { token: `\${CDS_TOKEN}` };
export const oauthAuth: AuthPart = { client_id: `\${CDS_CLIENT_ID}`, client_secret: `\${CDS_CLIENT_SECRET}` };

const oauthVariables = ['CDS_CLIENT_ID', 'CDS_CLIENT_SECRET'];

function requireVariables(names: readonly string[], env: Variables): void {
  const missing = names.filter((name) => !env[name]);
  if (missing.length === 0) return;
  throw usageError(
    `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set`,
    'secrets come from the environment or from --env-file, never as flags',
  );
}

/** Whether a login is chosen that does not expire although the environment also has a token, which does. */
export function leavesOutToken(
  { auth, tokenFile }: Pick<ServiceArguments, 'auth' | 'tokenFile'>,
  env: Variables,
): boolean {
  return auth === undefined && tokenFile === undefined && hasOauth(env) && Boolean(env.CDS_TOKEN);
}

function hasOauth(env: Variables): boolean {
  return oauthVariables.every((name) => env[name]);
}

/** How to log in: by `--auth`, or else by the variables of the environment; a token expires, so OAuth is preferred. @throws {CdsyncError} `usage` if it has nothing */
export function authPart({ auth, tokenFile }: Pick<ServiceArguments, 'auth' | 'tokenFile'>, env: Variables): AuthPart {
  if (tokenFile !== undefined && (auth ?? 'token_file') !== 'token_file') {
    throw usageError(`--token-file does not go with --auth ${auth}`, 'leave one of them out');
  }
  const byVariables = hasOauth(env) ? 'oauth' : env.CDS_TOKEN ? 'token' : undefined;
  const chosen = auth ?? (tokenFile === undefined ? byVariables : 'token_file');
  if (chosen === 'token_file') return { token_file: tokenFile ?? './token' };
  if (chosen === 'token') {
    requireVariables(['CDS_TOKEN'], env);
    return tokenAuth;
  }
  if (chosen === undefined && oauthVariables.every((name) => !env[name])) {
    throw usageError(
      'there is nothing to log in with',
      'set CDS_TOKEN, or CDS_CLIENT_ID and CDS_CLIENT_SECRET, or name a file: --token-file ./token',
    );
  }
  requireVariables(oauthVariables, env);
  return oauthAuth;
}

/** The value of a flag, or else of its variable. @throws {CdsyncError} `usage` that names both */
function requiredValue(flag: string, flagValue: string | undefined, variable: string, env: Variables): string {
  const value = flagValue || env[variable];
  if (value) return value;
  throw usageError(`--${flag} is missing`, `give --${flag}, or set ${variable}`);
}

/** Escapes a text so that the configuration replaces no variable in it. */
function literal(text: string): string {
  return text.replaceAll('$', '$$$$');
}

/** The flag or variable that gives each option. */
const sources: Readonly<Record<string, string>> = {
  'service.auth.token': 'CDS_TOKEN',
  'service.auth.client_id': 'CDS_CLIENT_ID',
  'service.auth.client_secret': 'CDS_CLIENT_SECRET',
  'service.auth.token_file': '--token-file',
};

function sourceOf(path: string): string {
  return sources[path] ?? `--${path.replace(/^service\./, '').replaceAll('_', '-')}`;
}

/** A warning of a configuration that was made of flags, with the flag for the place in the file. */
function flagWarning(warning: string): string {
  return warning.replace(/^\S+:\d+:\d+\s+(service\.[\w.]+)(?=:)/, (_, path: string) => sourceOf(path));
}

/** Turns a configuration's problems into problems of the flags that it was made of. */
function flagError(error: ConfigError): CdsyncError {
  const lines = error.problems.map(({ path, message, allowed }) => {
    return `${sourceOf(path)}: ${message}${allowed === undefined ? '' : `; allowed: ${allowed}`}`;
  });
  return usageError(lines.join('\n'), 'correct the flag or variable');
}

/**
 * Parses a configuration with this `service:` part, as if it were in the folder of `file`.
 * @throws {CdsyncError} `usage` that names the flag
 */
export function parseService(part: ServicePart, env: Variables, file = './flags.json'): Config {
  const { auth, allow_http, ...rest } = part;
  const plain = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, literal(value)]));
  const written = 'token_file' in auth ? { token_file: literal(auth.token_file) } : auth;
  const text = JSON.stringify({ version: 1, service: { ...plain, allow_http, auth: written } });
  try {
    const config = parseConfig(text, file, { env, needs: { jobs: false } });
    return { ...config, warnings: config.warnings.map(flagWarning) };
  } catch (error) {
    throw error instanceof ConfigError ? flagError(error) : error;
  }
}

/** The `service:` part from flags and environment. @throws {CdsyncError} `usage` that names the missing variable */
export function servicePart(args: ServiceArguments, env: Variables): ServicePart {
  return {
    base_url: requiredValue('base-url', args.baseUrl, 'CDS_BASE_URL', env),
    tenant_id: requiredValue('tenant-id', args.tenantId, 'CDS_TENANT_ID', env),
    ...(args.tenantHeader === undefined ? {} : { tenant_header: args.tenantHeader }),
    ...(args.oauthTenantHeader === undefined ? {} : { oauth_tenant_header: args.oauthTenantHeader }),
    ...(args.oauthTokenUrl === undefined ? {} : { oauth_token_url: args.oauthTokenUrl }),
    ...(args.allowHttp ? { allow_http: true } : {}),
    auth: authPart(args, env),
  };
}

/** The service for a command that needs no job: from a configuration, or from flags and the environment. */
export async function loadService(args: ServiceArguments & { config?: string | undefined }): Promise<Config> {
  const env = await environment(args);
  const { config, baseUrl, tenantId } = args;
  const flags = baseUrl ?? tenantId;
  if (config !== undefined && flags !== undefined) {
    throw usageError('a configuration and flags both say where the service is', 'leave out --base-url and --tenant-id');
  }
  if (config !== undefined || (flags === undefined && existsSync(defaultFile))) {
    return loadConfig(config ?? defaultFile, { env, envFile: args.envFile, needs: { jobs: false } });
  }
  return parseService(servicePart(args, env), env);
}

import { dirname, isAbsolute, relative, resolve } from 'node:path';
import { namePattern, nameRule } from '../../config/names.js';
import type { Variables } from '../../config/variables.js';
import { withExplorer } from '../../engine/inspect/explorer.js';
import type { ServiceArguments } from '../arguments.js';
import { inquiryOptions } from '../engine-options.js';
import { interruption } from '../interruption.js';
import { applyConfigToOutput } from '../load.js';
import { type Output, usageError } from '../output.js';
import { authPart, leavesOutToken, parseService, type ServicePart, servicePart } from '../service-from-flags.js';
import { hasTerminal, Terminal } from '../terminal.js';
import type { ConfigPlan } from './config.js';
import { chooseStreams } from './streams.js';

/** The command line of `cdsync init`. */
export interface InitArguments extends ServiceArguments {
  file: string;
  index: string[] | undefined;
  segment: string[] | undefined;
  storage: string | undefined;
  job: string | undefined;
  force: boolean;
  yes: boolean;
}

const localService = { base_url: 'http://127.0.0.1:8787', tenant_id: 'acme' };

/**
 * Asks for the settings of the service that the flags do not have.
 * @throws {CdsyncError} `usage` if there is nothing to log in with, or a flag is wrong; `interrupted`
 */
async function askForService(args: ServiceArguments, env: Variables, terminal: Terminal): Promise<ServicePart> {
  // Without a login no response would help, so it is checked before any question.
  const auth = authPart(args, env);
  const allowed = args.allowHttp ? ({ allow_http: true } as const) : {};
  const tried = (part: Partial<ServicePart>): ServicePart => {
    const whole: ServicePart = { ...localService, ...allowed, auth, ...part };
    parseService(whole, env);
    return whole;
  };
  const ask = async (
    key: keyof Omit<ServicePart, 'auth' | 'allow_http'>,
    fromFlag: string | undefined,
    text: string,
    fallback: string,
  ) => {
    if (fromFlag === undefined) return terminal.ask(text, fallback, (reply) => tried({ [key]: reply })[key] as string);
    return tried({ [key]: fromFlag })[key] as string;
  };
  const address = env.CDS_BASE_URL || localService.base_url;
  const tenant = env.CDS_TENANT_ID || localService.tenant_id;
  const named = {
    base_url: await ask('base_url', args.baseUrl, 'Address of the service', address),
    tenant_id: await ask('tenant_id', args.tenantId, 'Tenant id', tenant),
    tenant_header: await ask('tenant_header', args.tenantHeader, 'Header that carries it', 'service-tenant'),
  };
  if (!('client_id' in auth)) return tried(named);
  const oauthHeader = await ask(
    'oauth_tenant_header',
    args.oauthTenantHeader,
    'The same at the token endpoint',
    'X-Service-Tenant',
  );
  const { oauthTokenUrl } = args;
  const endpoint = oauthTokenUrl === undefined ? {} : { oauth_token_url: oauthTokenUrl };
  return tried({ ...named, oauth_tenant_header: oauthHeader, ...endpoint });
}

/** Turns a path relative to the working directory into one relative to the configuration's folder. */
function besideFile(path: string, file: string): string {
  if (isAbsolute(path)) return path;
  const seen = relative(dirname(resolve(file)), resolve(path)) || '.';
  return seen.startsWith('.') ? seen : `./${seen}`;
}

function jobName(name: string): string {
  if (namePattern.test(name)) return name;
  throw usageError(`${JSON.stringify(name)} is no name of a job`, `allowed: ${nameRule}`);
}

/** Refuses flags that leave a question open, if there is no terminal to ask it. */
function assertNoOpenQuestions({ yes, index, segment }: InitArguments): void {
  if (yes || index !== undefined || segment !== undefined) return;
  throw usageError(
    '--index is missing, and there is no terminal to ask at',
    'say what to read: --index NAME, --segment ID, or --yes for all indexes',
  );
}

/**
 * Plans the configuration from flags, the environment, the service itself, and, at a terminal, the user's input.
 * @throws {CdsyncError} `usage` that names the missing or wrong flag; errors of the client; `interrupted`
 */
export async function askForPlan(args: InitArguments, env: Variables, output: Output): Promise<ConfigPlan> {
  const { file, storage, tokenFile } = args;
  const inputs = { ...args, tokenFile: tokenFile === undefined ? undefined : besideFile(tokenFile, file) };
  const job = args.job === undefined ? undefined : jobName(args.job);
  const terminal = !args.yes && !args.json && hasTerminal() ? new Terminal() : undefined;
  const stop = interruption(output);
  try {
    if (terminal === undefined && leavesOutToken(inputs, env))
      output.notice(
        'login: CDS_CLIENT_ID and CDS_CLIENT_SECRET, not CDS_TOKEN, which expires; --auth token takes the token',
      );
    const service = terminal === undefined ? servicePart(inputs, env) : await askForService(inputs, env, terminal);
    if (terminal === undefined) assertNoOpenQuestions(args);
    const config = parseService(service, env, file);
    applyConfigToOutput(config, output);
    const signal = terminal === undefined ? stop.signal : AbortSignal.any([stop.signal, terminal.closed]);
    const options = inquiryOptions({ signal }, output, config.service);
    const streams = await withExplorer(config.service, options, (explorer) => chooseStreams(explorer, args, terminal));
    return {
      ...streams,
      service: { ...service, base_url: config.service.baseUrl },
      job: job ?? (await terminal?.ask('Name of the job', 'nightly', jobName)) ?? 'nightly',
      storage: storage === undefined ? './data' : besideFile(storage, file),
    };
  } finally {
    terminal?.close();
    stop.release();
  }
}

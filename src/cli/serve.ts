import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs';
import type { KeyInfo } from '../local-service/control-client.js';
import type { Fault } from '../local-service/faults/fault.js';
import { type Command, flag, many, textOption, wholeNumber } from './arguments.js';
import { leaveSignals } from './interruption.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface AddressArguments extends CommonArguments {
  port: number;
  host: string;
  controlToken: string | undefined;
}

interface ServeArguments extends AddressArguments {
  profiles: number;
  seed: number;
  state: string | undefined;
  attributes: 'text' | 'typed';
  latencyMs: number;
  oauthPort: number | undefined;
  tenantHeader: string;
  oauthTenantHeader: string;
  behaviour: string[] | undefined;
}

interface KeyArguments extends AddressArguments {
  action: string;
  key: string;
  tenant: string | undefined;
  permission: string[] | undefined;
  days: number | undefined;
  rotate: boolean;
  old: boolean;
  all: boolean;
}

const actions = ['create', 'issue', 'drop', 'revoke'] as const;

/** The most profiles that the 32 bits of their ids allow, with some left for those that later days add. */
const maxProfiles = 1_000_000_000;

function addressOptions<T>(parser: Argv<T>) {
  return parser.options({
    port: { ...wholeNumber('port', 'port; 0 takes any free one', [0, 65_535]), default: 8787 },
    host: { ...textOption('address to listen on'), default: '127.0.0.1' },
    'control-token': textOption('what requests to /_control/ must send [default: $CDS_CONTROL_TOKEN, or a new one]'),
  });
}

/** An option, or else the variable that `cdsync serve` prints; undefined if neither is set. */
function controlTokenOf({ controlToken }: AddressArguments): string | undefined {
  return (controlToken ?? process.env.CDS_CONTROL_TOKEN) || undefined;
}

/** The faults that `--behaviour` names: a kind, or the JSON of a fault. */
async function behavioursOf(texts: readonly string[]): Promise<Fault[]> {
  const { parseFault } = await import('../local-service/faults/fault.js');
  return texts.map((text) => {
    const { fault, problem } = parseFault(text);
    if (fault !== undefined) return fault;
    throw usageError(`--behaviour ${text}: ${problem}`, 'docs/local-service.md in the package lists them');
  });
}

/** Resolves with the first SIGINT or SIGTERM, or when the process that started this one as its own has ended. */
function untilStopped(): Promise<void> {
  leaveSignals();
  const ends = ['SIGINT', 'SIGTERM', 'disconnect'] as const;
  return new Promise((resolve) => {
    const stop = () => {
      for (const end of ends) process.off(end, stop);
      if (process.connected) process.disconnect();
      resolve();
    };
    for (const end of ends) process.on(end, stop);
    // It may have ended before this process listened.
    if (process.channel === null) stop();
  });
}

async function serve(args: ArgumentsCamelCase<ServeArguments>): Promise<void> {
  const { startLocalService } = await import('../local-service/service.js');
  const { isLoopbackHost } = await import('../local-service/control/control-access.js');
  const { welcome } = await import('../local-service/service.js');
  const output = new Output(args);
  const behaviours = await behavioursOf(args.behaviour ?? []);
  const controlToken = controlTokenOf(args);
  const service = await startLocalService({ ...args, stateFile: args.state, behaviours, controlToken });
  if (!isLoopbackHost(args.host)) {
    output.notice(
      `warning: ${args.host} is open to other machines, and the keys of this service are for trying only; /_control/ stays closed to them`,
    );
  }
  // Only now: before the service listens, a signal may simply end the process.
  const stopped = untilStopped();
  output.document({
    url: service.url,
    tenant_id: service.tenantId,
    token: service.token,
    client_id: service.clientId,
    client_secret: service.clientSecret,
    control_token: service.controlToken,
    ...(args.oauthPort === undefined ? {} : { oauth_token_url: service.oauthTokenUrl }),
  });
  for (const line of welcome(service, args.profiles, args.tenantHeader)) output.result(line);
  await stopped;
  await service.close();
}

function keyRequest(args: ArgumentsCamelCase<KeyArguments>): object {
  const { action, key, tenant } = args;
  if (action === 'create') return { action, name: key, tenant, permissions: args.permission };
  if (action === 'issue') {
    return { action, key, tenant, rotate: args.rotate, days: args.days === 0 ? null : args.days };
  }
  if (action === 'drop') return { action, key, tenant };
  if (args.old === args.all) throw usageError('revoke what: --old or --all', 'give one of them');
  return { action, key, tenant, which: args.all ? 'all' : 'old' };
}

function keyLines(action: string, issued: KeyInfo): string[] {
  const key = `key ${issued.name} of ${issued.tenant}`;
  if (action === 'create') {
    const credentials = [`export CDS_TENANT_ID=${issued.tenant}`, `export CDS_CLIENT_ID=${issued.client_id}`];
    return [...credentials, `export CDS_CLIENT_SECRET=${issued.client_secret}`];
  }
  if (action === 'issue') return [`export CDS_TENANT_ID=${issued.tenant}`, `export CDS_TOKEN=${issued.token}`];
  if (action === 'drop') return [`${key}: deposed tokens are dropped`];
  return [`${key}: tokens are revoked`];
}

const keysCommand: CommandModule<AddressArguments, KeyArguments> = {
  command: 'keys <action>',
  describe: 'make keys and tokens in the running service, and end them',
  builder: (parser) =>
    addressOptions(parser)
      .positional('action', {
        choices: actions,
        demandOption: true,
        describe: 'create a key, issue a token, drop deposed tokens, revoke tokens',
      })
      .options({
        key: { ...textOption('name of the key'), default: 'default' },
        tenant: textOption('its tenant or sandbox, such as acme-sb-1'),
        permission: many('create: its permissions [default: all]'),
        days: wholeNumber('days', 'issue: validity in days, 0 for ever [default: 90]', [0, 36_500]),
        rotate: flag('issue: earlier tokens end in 30 days'),
        old: flag('revoke: tokens from before the last rotation'),
        all: flag('revoke: every token'),
      }),
  handler: async (args) => {
    const { askForKeys } = await import('../local-service/control-client.js');
    const output = new Output(args);
    const issued = await askForKeys({ ...args, controlToken: controlTokenOf(args) }, keyRequest(args));
    output.document(issued);
    for (const line of keyLines(args.action, issued)) output.result(line);
  },
};

/** `cdsync serve`: runs the local service. `cdsync serve keys`: makes and ends keys and tokens in the running one. */
export const serveCommand: Command<CommonArguments, ServeArguments> = {
  builder: (parser) =>
    addressOptions(parser)
      .options({
        profiles: { ...wholeNumber('profiles', 'profiles of loyalty_members', [0, maxProfiles]), default: 100_000 },
        seed: { ...wholeNumber('seed', 'the same seed gives the same data and keys', [0, 0xffff_ffff]), default: 1 },
        state: textOption('file that keeps keys, time and changes over restarts'),
        attributes: {
          choices: ['text', 'typed'] as const,
          default: 'text' as const,
          requiresArg: true,
          describe: 'values of attributes: text, as published, or typed JSON',
        },
        'latency-ms': { ...wholeNumber('latency-ms', 'delay of every response', [0, 3_600_000]), default: 0 },
        'tenant-header': { ...textOption('name of the header'), default: 'service-tenant' },
        'oauth-tenant-header': { ...textOption('the same at the token endpoint'), default: 'X-Service-Tenant' },
        'oauth-port': wholeNumber('oauth-port', 'issue tokens at this port only, like a separate host', [0, 65_535]),
        behaviour: many('how this deployment differs: a kind of fault, or its JSON; may be repeated'),
      })
      .command(keysCommand as unknown as CommandModule)
      .epilogue(
        'Time, changes and faults: POST /_control/… (docs/local-service.md in the package).',
      ) as unknown as Argv<ServeArguments>,
  handler: serve,
};

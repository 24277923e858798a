import type { Variables } from '../../config/variables.js';
import type { ServiceArguments } from '../service-flags.js';
import { authPart, parseService, type ServicePart } from '../service-from-flags.js';
import type { Terminal } from '../terminal.js';

const localService = { base_url: 'http://127.0.0.1:8787', tenant_id: 'acme' };

/**
 * Asks for those facts of the service that the flags do not give.
 * @throws {CdsyncError} `usage` if there is nothing to log in with, or a flag is wrong; `interrupted`
 */
export async function askForService(args: ServiceArguments, env: Variables, terminal: Terminal): Promise<ServicePart> {
  // Without a login no answer would help, so it comes before any question.
  const auth = authPart(args, env);
  const tried = (part: Partial<ServicePart>): ServicePart => {
    const whole = { ...localService, auth, ...part };
    parseService(whole, env);
    return whole;
  };
  const ask = async (
    key: keyof Omit<ServicePart, 'auth'>,
    given: string | undefined,
    text: string,
    fallback: string,
  ) => {
    if (given === undefined) return terminal.ask(text, fallback, (answer) => tried({ [key]: answer })[key] as string);
    return tried({ [key]: given })[key] as string;
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

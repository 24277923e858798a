import { z } from '../core/zod.js';
import { budgetOptions } from '../rate-limit/budget-options.js';
import { duration, flag, map, type OptionProblem, option, secret, text, whole } from '../sdk/option.js';

function anyUrlFault(written: string): string | undefined {
  const url = URL.canParse(written) ? new URL(written) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) return 'must be an http:// or https:// URL';
  if (url.username !== '' || url.password !== '') return 'may not hold a user or a password; use auth';
  if (url.search !== '' || url.hash !== '') return 'may not hold a query or a fragment';
  return undefined;
}

function baseUrlFault(written: string): string | undefined {
  const hasPrefix = /\/(api|prof)\/*$/;
  return (
    anyUrlFault(written) ??
    (hasPrefix.test(new URL(written).pathname) ? 'remove /api and /prof: cdsync adds them' : undefined)
  );
}

const baseUrl = z
  .string()
  .superRefine((written, context) => {
    const fault = baseUrlFault(written);
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
  })
  .meta({ pattern: String.raw`^https?://[^\s/?#@]+(?!.*/(api|prof)/*$)[^?#]*$` })
  .transform((written) => written.replace(/(?<!\/)\/+$/, ''));

const tokenUrl = z
  .string()
  .superRefine((written, context) => {
    const fault = anyUrlFault(written);
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
  })
  .meta({ pattern: String.raw`^https?://[^\s/?#@]+[^?#]*$` });

/** Headers that a request has for another purpose, or that belong to its connection. */
const otherHeaders = new Set([
  ...['accept', 'accept-encoding', 'api-version', 'authorization', 'content-type', 'cookie', 'host', 'user-agent'],
  ...[
    'connection',
    'content-encoding',
    'content-length',
    'date',
    'expect',
    'keep-alive',
    'proxy-authorization',
    'proxy-connection',
  ],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'via'],
]);

const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/)
  .refine(
    (name) => !otherHeaders.has(name.toLowerCase()),
    'this header has another meaning; give the one of the tenant',
  );
const headerWords = 'the name of an HTTP header';
const version = z.string().regex(/^(\d{4}-\d{2}-\d{2}|unstable)$/);
const versionWords = 'a date such as 2025-07-31, or unstable';

const auth = map({
  client_id: text({
    description: 'Id of the OAuth credentials of an API key; goes with `client_secret`.',
    example: `\${CDS_CLIENT_ID}`,
  }).optional(),
  client_secret: secret(/./s, {
    description: 'Secret of the OAuth credentials. cdsync exchanges it for access tokens and renews them in time.',
    example: `\${CDS_CLIENT_SECRET}`,
  }).optional(),
  token: secret(/^[\x21-\x7e]+$/, {
    description: 'An access token of an API key, as it was issued. Nothing renews it.',
    example: `\${CDS_TOKEN}`,
    allowed: 'text without spaces and line ends',
  }).optional(),
  token_file: text({
    description:
      'A file with an access token. cdsync reads it again whenever it changes. Relative paths are relative to the YAML file.',
    example: './token',
  }).optional(),
});

const apiVersions = map({
  profile: option(version, {
    description: 'Version of the Profile API.',
    example: '2025-07-31',
    allowed: versionWords,
  }).prefault('2025-07-31'),
  management: option(version, {
    description: 'Version of the Management API.',
    example: '2024-04-01',
    allowed: versionWords,
  }).prefault('2024-04-01'),
  campaign_drafts: option(version, {
    description: 'Version for campaign drafts; some tenants have them under `unstable`.',
    example: 'unstable',
    allowed: versionWords,
  }).prefault('2024-04-01'),
});

function rate(group: string, fallback: number, why: string) {
  const description = `Requests to the ${group} API. ${why}`;
  return whole(1, 100_000, { description, unit: 'requests a second', example: fallback }).prefault(fallback);
}

const rateLimits = map({
  profile: rate('Profile', 2000, 'The tenant and its sandboxes share the limit, so leave some for others.'),
  management: rate(
    'Management',
    10,
    'The service allows 10 for the tenant; whether sandboxes share them is not published.',
  ),
  realtime: rate(
    'Real-time',
    200,
    'The service allows 500 for the tenant; whether sandboxes share them is not published, so this is cautious.',
  ),
});

const longest = 3_600_000;

function timeout(what: string, fallback: number) {
  return whole(1, longest, { description: what, unit: 'ms', example: fallback }).prefault(fallback);
}

const timeouts = map({
  connect: timeout('To open a connection.', 10_000),
  first_byte: timeout('From the request to the first byte of the response.', 60_000),
  body: timeout('Between two parts of a response.', 120_000),
  total: timeout('From the request to the end of its response, however steadily its bytes arrive.', 600_000),
});

/** How long, and how often, requests are sent again. */
export const retry = map({
  patience: duration({
    description:
      'How long the service may be away before a stream fails: the time since its last success. cdsync waits and asks again, one request at a time. Also the longest wait that a receiver (`http`) may ask for.',
    example: '5m',
  }).prefault('5m'),
  max_delay_ms: whole(1, longest, {
    description: 'The longest wait between two attempts, unless the service asks for a longer one.',
    unit: 'ms',
    example: 30_000,
  }).prefault(30_000),
});

const group = (description: string) => ({ description });

/** Whether others can read requests to a URL of HTTP. */
export function isReadableOnTheWay(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'http:' && !/^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

/** Addresses of `service:` that would carry tokens in plain text. */
export function plainAddresses(service: unknown): OptionProblem[] {
  const part = service as Readonly<Record<string, unknown>>;
  if (part.allow_http === true) return [];
  return Object.entries({ base_url: 'tokens and profiles', oauth_token_url: 'credentials' }).flatMap(([key, what]) => {
    const url = part[key];
    if (typeof url !== 'string' || !URL.canParse(url) || !isReadableOnTheWay(url)) return [];
    const message = `plain http to another machine: ${what} can be read on the way; use https://, or allow it with allow_http: true`;
    return [{ path: [key], message }];
  });
}

/** The `service:` part: where the service is, and how cdsync reads from it. */
export const serviceSchema = map({
  base_url: option(baseUrl, {
    description: 'Address of the service, without the prefixes `/api` and `/prof`. A trailing slash is ignored.',
    example: `\${CDS_BASE_URL:-http://127.0.0.1:8787}`,
    allowed: 'an http:// or https:// URL',
  }),
  allow_http: flag({
    description:
      'Whether tokens and profiles may go to another machine over http://, where everybody on the way can read them. A loopback address needs no permission.',
    example: true,
  }).prefault(false),
  tenant_id: option(z.string().regex(/^[\x21-\x7e]+$/), {
    description: 'The tenant; a sandbox has its own id.',
    example: `\${CDS_TENANT_ID:-acme}`,
    allowed: 'text without spaces',
    verbatim: true,
  }),
  tenant_header: option(headerName, {
    description: 'Header that carries the tenant id. Its real name has the brand of the service in it.',
    example: 'service-tenant',
    allowed: headerWords,
  }).prefault('service-tenant'),
  oauth_tenant_header: option(headerName, {
    description: 'The same header at the token endpoint.',
    example: 'X-Service-Tenant',
    allowed: headerWords,
  }).prefault('X-Service-Tenant'),
  oauth_token_url: option(tokenUrl, {
    description:
      'The token endpoint, if it is not `/api/v0/oauth2/token` below `base_url`. The credentials of `auth` go there, and to no other address.',
    example: 'https://login.example.com/api/v0/oauth2/token',
    allowed: 'an http:// or https:// URL',
  }).optional(),
  auth: option(auth, {
    description: 'How cdsync logs in: exactly one of the three forms.',
    forms: [['client_id', 'client_secret'], ['token'], ['token_file']],
  }),
  api_versions: option(apiVersions, group('The version of each API that cdsync asks for.')).prefault({}),
  rate_limits: option(rateLimits, group('The most requests in any second.')).prefault({}),
  page_size: whole(1, 10_000, {
    description:
      'Records to ask for in one page. cdsync halves it if the service refuses a first page, or if a page is too large for the memory.',
    unit: 'records',
    example: 500,
  }).prefault(500),
  timeouts_ms: option(timeouts, group('How long to wait before a request counts as failed.')).prefault({}),
  retry: option(retry, {
    ...group('What to do if a request fails and may succeed later.'),
    replaced: { max_attempts: 'patience' },
  }).prefault({}),
  concurrency: whole(1, 1024, {
    description:
      'The most requests under way at once. Default: as many as use the limit, by the latency of the responses, up to 512.',
    unit: 'requests',
    example: 64,
  }).optional(),
  budget: option(budgetOptions, group('How processes share the limits.')).prefault({}),
});

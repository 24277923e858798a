import {
  choice,
  duration,
  flag,
  map,
  type OptionInfo,
  type OptionProblem,
  option,
  path,
  Secret,
  secret,
  text,
  whole,
  z,
} from '../../src/sdk/index.js';
import { requestShape, responseOption } from './request-options.js';

const anyText = /^[\s\S]+$/;

const oauth2 = option(
  map({
    token_url: text({ description: 'Where tokens are issued.', example: 'https://auth.example.com/oauth/token' }),
    client_id: text({ description: 'The client.', example: 'cdsync' }),
    client_secret: secret(anyText, { description: 'Its secret.', example: '${CRM_SECRET}' }).optional(),
    grant: choice(['client_credentials', 'refresh_token'], {
      description: 'How a token is got.',
      example: 'refresh_token',
    }).prefault('client_credentials'),
    refresh_token: secret(anyText, {
      description: 'The refresh token. If the server replaces it, cdsync keeps the new one in the storage folder.',
      example: '${CRM_REFRESH_TOKEN}',
    }).optional(),
    scope: text({ description: 'The scopes to ask for.', example: 'contacts.write' }).optional(),
    audience: text({ description: 'The audience to ask for.', example: 'https://api.example.com' }).optional(),
    resource: text({ description: 'The resource to ask for.', example: 'https://api.example.com' }).optional(),
    params: option(z.record(z.string().min(1), text({ description: 'Its value.', example: '42' })), {
      description: 'More parameters of the request.',
      example: { account_id: '42' },
    }).prefault({}),
    send: choice(['header', 'body'], {
      description: 'Where the client sends its id and secret.',
      example: 'body',
    }).prefault('header'),
  }),
  { description: 'OAuth 2: cdsync logs in, and renews the token before it ends.' },
);

const named = (what: string, example: string) =>
  map({
    name: text({ description: `Name of the ${what}.`, example }),
    value: secret(anyText, { description: 'Its value, which nothing shows.', example: '${API_KEY}' }),
  });

const auth = option(
  map({
    bearer: secret(/^[\t\x20-\x7e\x80-\xff]+$/, { description: 'A token.', example: '${CRM_TOKEN}' }).optional(),
    basic: option(
      map({
        user: text({ description: 'The user.', example: 'cdsync' }),
        password: secret(/^[\s\S]*$/, { description: 'The password.', example: '${CRM_PASSWORD}' }),
      }),
      { description: 'User and password.' },
    ).optional(),
    header: option(named('header', 'x-api-key'), { description: 'A header with a key.' }).optional(),
    query: option(named('parameter', 'api_key'), { description: 'A parameter of the URL with a key.' }).optional(),
    oauth2: oauth2.optional(),
  }),
  {
    description: 'The login.',
    example: { bearer: '${CRM_TOKEN}' },
    forms: [['bearer'], ['basic'], ['header'], ['query'], ['oauth2']],
  },
);

const limit = option(
  map({
    requests: whole(1, 1_000_000, { description: 'This many requests …', example: 10 }).optional(),
    records: whole(1, 100_000_000, { description: '… or this many records …', example: 1000 }).optional(),
    per: duration({ description: '… in any span of this length.', example: '1s' }),
  }),
  {
    description: 'A limit.',
    // `per` belongs to both: a form is identified by the keys that only it has.
    forms: [['requests'], ['records']],
  },
);

const tls = option(
  map({
    ca_file: path({
      description: 'PEM file of the authorities to trust instead of the usual ones.',
      example: './ca.pem',
    }).optional(),
    cert_file: path({
      description: 'PEM file of the certificate that cdsync shows.',
      example: './client.pem',
    }).optional(),
    key_file: path({ description: 'PEM file of its key.', example: './client.key' }).optional(),
    passphrase: secret(anyText, { description: 'The passphrase of the key.', example: '${KEY_PASSPHRASE}' }).optional(),
  }),
  { description: 'Certificates.', example: { ca_file: './internal-ca.pem' } },
);

const variant = (op: string) =>
  option(
    z.union([
      option(z.literal('skip'), { description: 'Sends nothing.', example: 'skip' }),
      option(map(requestShape), { description: `Differences for ${op}.` }),
    ]),
    {
      description: `Differences for ${op}: \`skip\` sends nothing, a map replaces keys of the destination.`,
      example: 'skip',
      allowed: 'skip, or a map of url, method, headers, body, format, batch, required, response',
    },
  ).optional();

export const httpOptions = {
  ...requestShape,
  url: requestShape.url.unwrap(),
  auth: auth.optional(),
  omit_null: flag({ description: 'Leaves members out that are NULL.', example: true }).prefault(false),
  insert: variant('rows that are new at the receiver'),
  update: variant('rows that the receiver has'),
  delete: variant('deleted rows'),
  rate: option(
    z.union([option(z.array(limit).min(1), { description: 'Limits.', example: [{ requests: 10, per: '1s' }] }), limit]),
    {
      description:
        'How much may be sent: one limit or a list. It counts over retries and runs. `Retry-After` and the like lower it.',
      example: [{ requests: 10, per: '1s' }],
      allowed: 'a limit such as { requests: 10, per: 1s }, or a list of them',
    },
  ).optional(),
  parallel: whole(1, 64, { description: 'Most requests at the same time.', example: 8 }).prefault(4),
  response: responseOption.optional(),
  idempotency: option(map({ header: text({ description: 'Name of the header.', example: 'Idempotency-Key' }) }), {
    description:
      'A header with a key that is the same if a request is repeated because no answer came. Without `body`, `idempotency-key` is always sent.',
    example: { header: 'Idempotency-Key' },
  }).optional(),
  signing_secret: secret(/^(?!whsec_)\S{16,}$|^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/, {
    description:
      'Without `body`: signs each request with HMAC-SHA-256, as Standard Webhooks defines it. What follows `whsec_` is Base64; anything else is taken as it is.',
    example: '${WEBHOOK_SECRET}',
    allowed: 'at least 16 characters without spaces, or whsec_ and strict Base64 of 24 bytes at least',
    check: shortKey,
  }).optional(),
  test: option(
    map({
      method: choice(['get', 'head', 'post'], { description: 'Its method.', example: 'head' }).prefault('get'),
      url: text({ description: 'Its URL, at the same host.', example: 'https://api.example.com/v3/me' }),
    }),
    { description: 'A request that `cdsync check` sends, and that must be answered with 2xx.' },
  ).optional(),
  allow_http: flag({
    description:
      'Whether a login, headers or a query may go to another machine over http://, where everybody on the way can read them and all records.',
    example: true,
  }).prefault(false),
  timeout: duration({ description: 'How long one request may take.', example: '10s' }).prefault('30s'),
  tls: tls.optional(),
};

export type HttpShape = typeof httpOptions;

function shortKey(value: unknown): OptionProblem[] {
  const written = value instanceof Secret ? value.reveal() : String(value);
  const isShort = written.startsWith('whsec_') && Buffer.from(written.slice(6), 'base64').length < 24;
  return isShort ? [{ path: [], message: 'the key after whsec_ has fewer than 24 bytes' }] : [];
}

type Raw = Readonly<Record<string, unknown>>;
const isMap = (value: unknown): value is Raw => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Headers that belong to the connection. */
const ownHeaders = ['content-length', 'expect', 'keep-alive', 'transfer-encoding', 'upgrade'];

interface WrittenForm {
  readonly form: Raw;
  readonly path: readonly string[];
  /** Whether it sends the format of cdsync. */
  readonly isOwn: boolean;
}

/** The destination as it is written, and the forms that replace keys of it. */
function formsOf(written: Raw): WrittenForm[] {
  const isOwn = (form: Raw) =>
    written.body === undefined &&
    form.body === undefined &&
    !/^(?:get|delete)$/.test(String(form.method ?? written.method));
  const forms = ['insert', 'update', 'delete'].map((op) => ({ form: written[op], path: [op] }));
  const maps = forms.filter((part): part is { form: Raw; path: string[] } => isMap(part.form));
  return [{ form: written, path: [] as string[] }, ...maps].map((part) => ({ ...part, isOwn: isOwn(part.form) }));
}

/** Rules between the options, as they are written. */
export const httpRules: Pick<OptionInfo, 'check'> = {
  check(value) {
    const written = value as Raw;
    const findings: OptionProblem[] = [];
    if (written.mode === 'upsert' && isMap(written.delete))
      findings.push({
        path: ['delete'],
        message: '`mode: upsert` sends no deletes: use `mode: mirror`, or take `delete` out',
      });
    for (const op of ['insert', 'update', 'delete'])
      if (
        isMap(written[op]) &&
        written.body === undefined &&
        (written[op] as Raw).body === undefined &&
        (written[op] as Raw).method !== undefined &&
        !['delete', 'get'].includes(String((written[op] as Raw).method))
      )
        findings.push({ path: [op], message: 'without `body` there is one form of request for all: name `body` here' });
    const forms = formsOf(written);
    const named = isMap(written.idempotency) ? written.idempotency.header : undefined;
    for (const { form, path, isOwn } of forms) {
      const key = (typeof named === 'string' ? named : isOwn ? 'idempotency-key' : '').toLowerCase();
      for (const header of isMap(form.headers) ? Object.keys(form.headers) : []) {
        const name = header.toLowerCase();
        if (name === key)
          findings.push({
            path: named === undefined ? [...path, 'headers', header] : ['idempotency'],
            message: `\`headers\` has "${name}" too: it would be the same for other records`,
          });
        if (ownHeaders.includes(name))
          findings.push({ path: [...path, 'headers', header], message: `cdsync itself sets "${name}": take it out` });
      }
      const { format = written.format, batch } = form;
      if (isMap(batch) && batch.body !== undefined && format !== undefined && format !== 'json')
        findings.push({
          path: [...path, 'batch'],
          message: `with \`format: ${format}\`, \`batch\` takes no \`body\``,
        });
    }
    if (written.signing_secret !== undefined && written.body !== undefined)
      findings.push({ path: ['signing_secret'], message: 'only requests without `body` are signed' });
    if (isMap(written.auth) && isMap(written.auth.oauth2)) {
      const { grant, refresh_token: token, client_secret: clientSecret } = written.auth.oauth2;
      if (grant === 'refresh_token' && token === undefined)
        findings.push({
          path: ['auth', 'oauth2'],
          message: '`grant: refresh_token` needs `refresh_token`',
          missing: 'refresh_token',
        });
      if (grant !== 'refresh_token' && clientSecret === undefined)
        findings.push({ path: ['auth', 'oauth2'], message: '`client_secret` is missing', missing: 'client_secret' });
    }
    return findings;
  },
};

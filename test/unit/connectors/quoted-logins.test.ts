import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import { CdsyncError } from '../../../src/core/errors.js';
import { withoutNotedSecrets } from '../../../src/core/secret.js';
import { guardConnector } from '../../../src/delivery/connector-guard.js';
import type { DestinationContext, TableConnector } from '../../../src/sdk/index.js';
import { map } from '../../../src/sdk/option.js';

const marker = 'kanarie';
/** Errors of conversions and files quote values of rows. */
const row = `${marker}@example.com`;
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
const keyLines = privateKey.split('\n').filter((line) => line.length >= 16 && !line.startsWith('-----'));
const odd = `${marker}-secret'"%+/=&<ü>\\$x`;
const keyFile = JSON.stringify({
  type: 'service_account',
  private_key: privateKey,
  private_key_id: odd,
  client_email: 'a@b.iam',
});

/** How a server or a library may quote its options. */
const spellings: Record<string, (text: string) => string> = {
  'as it is': (text) => text,
  'as JSON': (text) => JSON.stringify(text),
  'as JSON within JSON': (text) => JSON.stringify(JSON.stringify(text)),
  'as a URL': (text) => encodeURIComponent(text),
  'as SQL': (text) => text.replaceAll("'", "''"),
  'in hexadecimal digits': (text) => Buffer.from(text).toString('hex'),
  'in Base64': (text) => Buffer.from(text).toString('base64'),
};

let spelled = (text: string) => text;
let failed: { readonly quotesRowOf?: string; readonly [member: string]: unknown } = {};
const failures: Record<string, typeof failed> = {
  'a refused login': { code: 390100, name: 'OperationFailedError', data: {} },
  'a refused option': { code: 404001 },
  'a statement that is refused': { code: '001003', sqlState: '42000' },
  'a missing right': { code: '003001', sqlState: '42501' },
  'a refused value': { code: '100038', sqlState: '22018', quotesRowOf: 'snowflake' },
  'a network without a response': { code: 401001 },
  'a timeout': { code: 'ETIMEDOUT' },
  'a certificate': { code: 'SELF_SIGNED_CERT_IN_CHAIN' },
  'status 401': { code: 401, errors: [{ reason: 'authError' }] },
  'status 403': { code: 403, errors: [{ reason: 'accessDenied' }] },
  'status 404': { code: 404, errors: [{ reason: 'notFound' }] },
  'status 500': { code: 500, errors: [{ reason: 'backendError' }] },
  'an invalid query': { code: 400, errors: [{ reason: 'invalidQuery' }] },
  'an invalid file': { code: 400, errors: [{ reason: 'invalid' }], quotesRowOf: 'bigquery' },
  'a malformed response': { name: 'SyntaxError' },
};

/** The failure of a library that quotes all options and a row. */
function quoting(server: string, options: Record<string, unknown>): Error {
  const texts = Object.values(options).map((option) => (typeof option === 'string' ? option : JSON.stringify(option)));
  const members = Object.values((options.credentials ?? {}) as object).map(String);
  const ofRow = failed.quotesRowOf === server ? [row] : [];
  const message = ['request', ...ofRow, ...[...texts, ...members].map(spelled)].join(' | ');
  return Object.assign(new Error(message), { response: { config: options }, ...failed });
}

const snowflake = snowflakeConnector(
  async () =>
    ({
      configure: () => undefined,
      createConnection: (options: object) => ({
        connect: (done: (error: Error) => void) => done(quoting('snowflake', { ...options })),
        execute: () => {
          throw quoting('snowflake', { ...options });
        },
        destroy: (done: () => void) => done(),
      }),
    }) as never,
);
const bigquery = bigqueryConnector(
  async () =>
    ({
      BigQuery: class {
        readonly #options: Record<string, unknown>;
        constructor(options: object) {
          this.#options = { ...options };
        }
        createQueryJob = () => Promise.reject(quoting('bigquery', this.#options));
        dataset = () => ({
          table: () => ({ createLoadJob: () => Promise.reject(quoting('bigquery', this.#options)) }),
        });
      },
    }) as never,
);

const place = { account: 'o-a', username: 'loader', database: 'CRM', schema: 'CDP' };
// biome-ignore lint/suspicious/noExplicitAny: connectors of any options.
const logins: readonly [string, TableConnector<any>, object][] = [
  ['snowflake, password', snowflake, { ...place, password: odd }],
  ['snowflake, token', snowflake, { ...place, token: odd }],
  ['snowflake, oauth_token', snowflake, { ...place, oauth_token: odd }],
  ['snowflake, private_key', snowflake, { ...place, private_key: privateKey, private_key_passphrase: odd }],
  ['bigquery, credentials', bigquery, { project: 'proj', dataset: 'd', credentials: keyFile }],
];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-quoted-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** All that --verbose shows of a failure without --show-values. */
async function seen(connector: TableConnector, written: object): Promise<string> {
  const options = z.parse(map(connector.options), written) as DestinationContext['options'];
  const context = {
    ...{ destination: 'target', job: 'nightly', options, folder, keptFolder: folder },
    ...{ service: { sendEvent: () => Promise.reject(new Error('no business with the service')) } },
    ...{ signal: new AbortController().signal, notice: () => undefined },
  };
  const guarded = guardConnector(connector, options);
  const ended = (async () => (await guarded.open(context)).describe('people'))();
  const error = await ended.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CdsyncError);
  const { message, hint = '', cause, causeQuotesValues } = error as CdsyncError;
  const shown = !causeQuotesValues && cause instanceof Error ? withoutNotedSecrets(String(cause.stack)) : '';
  return [message, hint, JSON.stringify(error), shown].join('\n');
}

const forms = [0, 1, 2].map((before) => {
  const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(`${marker}-`)]).toString('base64');
  return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + 8) * 8) / 6));
});
const sought = [
  marker,
  Buffer.from(marker).toString('hex'),
  ...forms,
  ...keyLines,
  ...keyLines.map((line) => Buffer.from(line).toString('hex')),
];

describe.each(logins)('a login of %s', (_, connector, options) => {
  it.each(Object.keys(spellings))(
    'that a library quotes %s is in no message, whatever the failure',
    async (spelling) => {
      spelled = spellings[spelling] as (text: string) => string;
      const leaks: string[] = [];
      for (const [what, failure] of Object.entries(failures)) {
        failed = failure;
        const text = await seen(connector, options);
        for (const secret of sought) {
          const at = text.indexOf(secret);
          if (at >= 0) leaks.push(`${what}: ${text.slice(Math.max(0, at - 60), at + 60)}`);
        }
      }
      expect(leaks).toEqual([]);
    },
  );
});

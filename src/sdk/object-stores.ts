import { z } from '../core/zod.js';
import type { AzureStore } from './azure/azure-store.js';
import { azureLibrary, azureOptions, azureRules } from './azure/index.js';
import { type OptionProblem, option } from './option.js';
import { type S3Options, type S3Store, s3Library, s3Options, s3Rules } from './s3/index.js';

/** The options of a place with the URL `s3://bucket/prefix` or `az://container/prefix`. */
export const objectStoreOptions = {
  ...s3Options,
  endpoint: option(z.string().regex(/^https?:\/\/[^\s/@?#]+(\/[a-z0-9]*)?$/), {
    description: 'The URL of the object store, if it is not AWS or the public cloud of Azure.',
    example: 'https://minio.example.com:9000',
    allowed: 'a URL of a host, without path and without login; for Azure, the path may be the account',
  }).optional(),
  ...azureOptions,
};

const keysOf: Readonly<Record<string, readonly string[]>> = {
  s3: Object.keys(s3Options).filter((key) => key !== 'endpoint'),
  az: Object.keys(azureOptions),
};

/** Rules between these options and `url`. */
export function objectStoreRules(options: Readonly<Record<string, unknown>>): OptionProblem[] {
  const scheme = /^(s3|az):/.exec(String(options.url ?? ''))?.[1];
  const findings: OptionProblem[] = [];
  const refuse = (key: string, message: string) => {
    if (options[key] !== undefined) findings.push({ path: [key], message });
  };
  for (const [kind, keys] of Object.entries(keysOf))
    if (kind !== scheme) for (const key of keys) refuse(key, `needs \`url\`, which must begin with ${kind}://`);
  if (scheme === undefined) refuse('endpoint', 'needs `url`, which must begin with s3:// or az://');
  if (scheme === 's3' && /\w\/\w/.test(String(options.endpoint))) refuse('endpoint', 'must have no path');
  if (scheme === undefined) return findings;
  return [...findings, ...(scheme === 's3' ? s3Rules(options) : azureRules(options))];
}

/** A bucket or container to read or write at once, without a request that tries the store. */
export async function objectStore(
  options: S3Options & { readonly account?: string | undefined },
): Promise<S3Store | AzureStore> {
  if (options.url.startsWith('az:')) return (await azureLibrary()).AzureStore.open(options);
  return (await s3Library()).S3Store.openReadOnly(options);
}

/** A store that a check has reached, as it shows it. */
export function reachedStore(store: S3Store | AzureStore): string {
  const end = 'loginEnd' in store ? store.loginEnd : undefined;
  return end === undefined
    ? store.place
    : `${store.place}, with a shared access signature that ends on ${end.toISOString()}`;
}

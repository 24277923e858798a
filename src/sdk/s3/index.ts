import { z } from '../../core/zod.js';
import { flag, type OptionProblem, option, secret, text, verbatim } from '../option.js';

/** The options that say where an object store is and how to log in; the URL of bucket and prefix is not among them. */
export const s3Options = {
  endpoint: option(z.string().regex(/^https?:\/\/[^\s/@?#]+\/?$/), {
    description: 'The URL of the object store, if it is not AWS.',
    example: 'https://minio.example.com:9000',
    allowed: 'a URL of a host, without path and without login',
  }).optional(),
  region: text({
    description: "The bucket's region. Default: the environment's, as for every AWS tool.",
    example: 'eu-central-1',
  }).optional(),
  access_key_id: verbatim({
    description:
      'Id of the access key. Without it, credentials come from the places that every AWS tool uses: the environment, a profile, or the role of the machine.',
    example: '${AWS_ACCESS_KEY_ID}',
  }).optional(),
  secret_access_key: secret(/^\S+$/, {
    description: 'The secret of that access key.',
    example: '${AWS_SECRET_ACCESS_KEY}',
  }).optional(),
  session_token: secret(/^\S+$/, {
    description: 'The token of a temporary login.',
    example: '${AWS_SESSION_TOKEN}',
  }).optional(),
  path_style: flag({
    description:
      'Whether the bucket is part of the path of a request, not of the host name. Default: yes if there is an `endpoint`.',
    example: false,
  }).optional(),
};

/** Rules between these options. */
export function s3Rules(options: Readonly<Record<string, unknown>>): OptionProblem[] {
  const has = (key: string) => options[key] !== undefined;
  const findings: OptionProblem[] = [];
  if (has('access_key_id') !== has('secret_access_key'))
    findings.push({ path: [], message: 'give both `access_key_id` and `secret_access_key`, or neither' });
  if (has('session_token') && !has('access_key_id'))
    findings.push({ path: ['session_token'], message: 'needs `access_key_id`' });
  return findings;
}

export type { S3Options } from './s3-client.js';
export type { S3Store } from './s3-store.js';

/** Loads the client of object stores. The vendor's library is loaded with the first {@link S3Store} that is opened. */
export function s3Library(): Promise<typeof import('./s3-store.js')> {
  return import('./s3-store.js');
}

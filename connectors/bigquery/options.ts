import { type OptionProblem, option, path, secret, verbatim, z } from '../../src/sdk/index.js';

export const bigqueryOptions = {
  project: option(z.string().regex(/^[a-z][a-z0-9.:-]*[a-z0-9]$/), {
    description: 'Id of the project that has the dataset, and pays.',
    example: 'acme-warehouse',
    allowed: 'the id of a project, in lower case',
  }),
  dataset: option(z.string().regex(/^\w+$/), {
    description: 'The dataset of the tables. It must exist.',
    example: 'crm',
    allowed: 'letters, digits and _',
  }),
  location: verbatim({
    description: 'The location of the dataset. Needed outside of the multi-regions US and EU.',
    example: 'europe-west3',
  }).optional(),
  key_file: path({
    description:
      'A file with the key of a service account. Without it and `credentials`, the login is that of the environment: GOOGLE_APPLICATION_CREDENTIALS, a workload identity, or the service account of the machine.',
    example: './service-account.json',
  }).optional(),
  credentials: secret(/^\s*\{.*\}\s*$/s, {
    description: 'The content of a key file, instead of `key_file`.',
    example: '${GOOGLE_CREDENTIALS}',
    allowed: 'the JSON of a key of a service account',
  }).optional(),
};

/** Rules between the options. */
export function checkOptions(value: unknown): readonly OptionProblem[] {
  const options = value as Partial<Record<keyof typeof bigqueryOptions, unknown>>;
  if (options.key_file === undefined || options.credentials === undefined) return [];
  return [{ path: ['credentials'], message: 'there is also a `key_file`: give only one of the two' }];
}

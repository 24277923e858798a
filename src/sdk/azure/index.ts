import { type OptionProblem, secret, verbatim } from '../option.js';

/** The options that say how to log in to Azure; the URL of container and prefix, and `endpoint`, are not among them. */
export const azureOptions = {
  account: verbatim({
    description:
      'Azure: the storage account. Without `account_key` and `sas`, the login is the one that the environment or the machine has (needs the package @azure/identity).',
    example: 'crmexports',
  }).optional(),
  account_key: secret(/^[\w+/]{20,}={0,2}$/, {
    description: 'Azure: a key of that account.',
    example: '${AZURE_STORAGE_KEY}',
    allowed: 'a key of the account, in Base64',
  }).optional(),
  sas: secret(/^\?*(?!\w+:\/\/)\S*\bsig=\S+$/, {
    description:
      'Azure: a shared access signature for the container, instead of a key. `cdsync check` says when it ends.',
    example: '${AZURE_STORAGE_SAS}',
    allowed: 'the part of its URL after the question mark, such as sv=…&se=…&sp=rcwdl&sig=…',
  }).optional(),
};

/** Rules between these options. */
export function azureRules(options: Readonly<Record<string, unknown>>): OptionProblem[] {
  const has = (key: string) => options[key] !== undefined;
  const findings: OptionProblem[] = [];
  if (!has('account'))
    findings.push({ path: [], message: '`account` is missing: it names the storage account', missing: 'account' });
  if (has('account_key') && has('sas'))
    findings.push({ path: ['sas'], message: 'give `account_key` or `sas`, not both' });
  return findings;
}

/** Loads the client of Azure. The vendor's library is loaded with the first {@link AzureStore} that is opened. */
export function azureLibrary(): Promise<typeof import('./azure-store.js')> {
  return import('./azure-store.js');
}

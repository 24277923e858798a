import { ProxyFailure } from '../../core/proxy-failure.js';
import {
  CdsyncError,
  loadRefused,
  loginRefused,
  permissionMissing,
  systemCode,
  tlsRefused,
  unavailable,
  untrusted,
  untrustedHint,
} from '../errors.js';

interface AzureFailure {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly statusCode?: number;
  readonly details?: { readonly errorCode?: string };
  readonly response?: { readonly headers?: { get(name: string): string | undefined } };
}

const logins = new Set([
  'AuthenticationFailed',
  'InvalidAuthenticationInfo',
  'NoAuthenticationInformation',
  'AccountIsDisabled',
]);
const identities = /^(Aggregate)?Authentication(Required)?Error$|^CredentialUnavailableError$/;
const loginHint = 'check `account`, `account_key` or `sas`, or the login that the environment gives instead';
const rights =
  'this login needs the rights to read, write, delete and list (sp=rcwdl, or the role "Storage Blob Data Contributor") on the container; `export` can do with create alone. The account may also have network rules';

/** The service's name of a failure. */
function nameOf({ code, details, response }: AzureFailure): string {
  return details?.errorCode ?? response?.headers?.get('x-ms-error-code') ?? code ?? '';
}

/** Whether Azure says that there is no such blob. */
export function isMissing(error: unknown): boolean {
  const failure = error as AzureFailure;
  return failure.statusCode === 404 && !nameOf(failure).startsWith('Container');
}

/** Whether Azure says that a condition of the request does not hold. */
export function isPreconditionFailure(error: unknown): boolean {
  const failure = error as AzureFailure;
  return failure.statusCode === 412 || nameOf(failure) === 'BlobAlreadyExists';
}

/** Whether Azure refuses to overwrite a blob to a login that may create blobs. */
export function isOverwriteRefusal(error: unknown): boolean {
  return ['UnauthorizedBlobOverwrite', 'AuthorizationPermissionMismatch'].includes(nameOf(error as AzureFailure));
}

/** A failure of Azure as an error of cdsync. Its own message is left out: it may repeat parts of the request. */
export function azureError(
  error: unknown,
  { place, container }: { readonly place: string; readonly container: string },
): unknown {
  const failure = error as AzureFailure;
  if (error instanceof CdsyncError || failure.name === 'AbortError') return error;
  const hidden = { cause: error, causeQuotesValues: true } as const;
  if (error instanceof ProxyFailure) return unavailable(`${place} is unavailable: ${error.message}`, hidden);
  const [name, status, system] = [nameOf(failure), failure.statusCode, systemCode(error)];
  const shown = name || status;
  if (identities.test(failure.name ?? ''))
    return loginRefused(`no login was found for ${place}`, { ...hidden, hint: loginHint });
  if (logins.has(name) || status === 401)
    return loginRefused(`${place} refuses the login (${shown})`, { ...hidden, hint: loginHint });
  if (name === 'ContainerNotFound' || name === 'ContainerDisabled')
    return loadRefused(`there is no container "${container}"`, {
      ...hidden,
      hint: 'create it: cdsync never does; or check `url`, `account` and `endpoint`',
    });
  if (status === 403 || name === 'BlobImmutableDueToPolicy')
    return permissionMissing(`${place} refuses access (${shown})`, { ...hidden, hint: rights });
  if (untrusted.test(system) || untrusted.test(failure.message ?? ''))
    return tlsRefused(place, system || 'TLS', { ...hidden, hint: untrustedHint });
  if (status !== undefined && status >= 400 && status < 500 && ![408, 409, 429].includes(status))
    return loadRefused(`${place} refuses a request (${shown})`, hidden);
  return unavailable(`${place} is unavailable (${system || shown || failure.name})`, hidden);
}

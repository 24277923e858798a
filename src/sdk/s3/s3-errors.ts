import { ProxyFailure } from '../../core/proxy-failure.js';
import { CdsyncError, loadRefused, loginRefused, permissionMissing, unavailable, untrusted } from '../errors.js';

interface S3Failure {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

const logins = new Set(['InvalidAccessKeyId', 'SignatureDoesNotMatch', 'ExpiredToken', 'InvalidToken', 'AuthFailure']);
const regions = new Set(['PermanentRedirect', 'AuthorizationHeaderMalformed', 'IllegalLocationConstraintException']);

const credentialsHint =
  'check `access_key_id` and `secret_access_key`, or the credentials that the environment gives instead';

/** Whether a store says that there is no such object. */
export function isMissing(error: unknown): boolean {
  const { name, $metadata } = error as S3Failure;
  return name === 'NoSuchKey' || (name !== 'NoSuchBucket' && $metadata?.httpStatusCode === 404);
}

/** Whether a store says that a condition of the request does not hold. */
export function isPreconditionFailure(error: unknown): boolean {
  const { name, $metadata } = error as S3Failure;
  return name === 'PreconditionFailed' || $metadata?.httpStatusCode === 412;
}

/** The error for a file that has changed since its checksum was taken. */
export function fileChanged(local: string): CdsyncError {
  return new CdsyncError(`${local} has other content than a moment ago, and was not put into the store`, {
    code: 'file_changed',
    hint: 'does another program write there, or is the disk damaged? Remove the cache folder, then run again',
  });
}

interface HiddenCause {
  readonly cause: unknown;
  readonly causeQuotesValues: true;
}

function loginError({ name = '', $metadata }: S3Failure, place: string, hidden: HiddenCause): CdsyncError | undefined {
  const status = $metadata?.httpStatusCode;
  if (name === 'CredentialsProviderError')
    return loginRefused(`no credentials were found for ${place}`, { ...hidden, hint: credentialsHint });
  if (name === 'RequestTimeTooSkewed')
    return loginRefused(`${place} refuses the login: the clocks differ`, {
      ...hidden,
      hint: 'set the clock of this machine',
    });
  if (!logins.has(name) && status !== 401) return undefined;
  return loginRefused(`${place} refuses the login (${name || status})`, { ...hidden, hint: credentialsHint });
}

function bucketError({ name = '', message = '', $metadata }: S3Failure, bucket: string, hidden: HiddenCause) {
  if (name === 'NoSuchBucket')
    return loadRefused(`there is no bucket "${bucket}"`, {
      ...hidden,
      hint: 'create it, or check `url`, `endpoint` and `region`',
    });
  if (regions.has(name) || $metadata?.httpStatusCode === 301)
    return loadRefused(`bucket "${bucket}" is in another region`, {
      ...hidden,
      hint: "set `region` to the bucket's region",
    });
  if (!/region is missing/i.test(message)) return undefined;
  return loadRefused(`the region of bucket "${bucket}" is not known`, {
    ...hidden,
    hint: 'set `region`',
  });
}

function requestError(
  { name, message = '', code = '', $metadata }: S3Failure,
  place: string,
  hidden: HiddenCause,
): CdsyncError {
  const status = $metadata?.httpStatusCode;
  if (status === 403) {
    return permissionMissing(`${place} refuses access (${name || status})`, {
      ...hidden,
      hint: 'these credentials need s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix',
    });
  }
  if (untrusted.test(code) || untrusted.test(message))
    return loadRefused(`there is no trusted connection to ${place}`, {
      ...hidden,
      hint: 'for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file',
    });
  // 409: another request for the object is under way; this one says nothing about the condition, and may be repeated.
  if (status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 409 && status !== 429)
    return loadRefused(`${place} refuses a request (${name || status})`, hidden);
  return unavailable(`${place} is unavailable (${code || name || status})`, hidden);
}

/** A store's failure as an error of cdsync. The store's own message is left out: it may repeat parts of the request. */
export function s3Error(
  error: unknown,
  { place, bucket }: { readonly place: string; readonly bucket: string },
): unknown {
  const failure = error as S3Failure;
  if (error instanceof CdsyncError || failure.name === 'AbortError') return error;
  const hidden: HiddenCause = { cause: error, causeQuotesValues: true };
  if (error instanceof ProxyFailure) return unavailable(`${place} is unavailable: ${error.message}`, hidden);
  return (
    loginError(failure, place, hidden) ?? bucketError(failure, bucket, hidden) ?? requestError(failure, place, hidden)
  );
}

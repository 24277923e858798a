import { describe, expect, it } from 'vitest';
import { unavailable } from '../../../src/sdk/index.js';
import { isMissing, isPreconditionFailure, s3Error } from '../../../src/sdk/s3/s3-errors.js';

const at = { place: 's3://exports/cdp', bucket: 'exports' };
const response = (name: string, httpStatusCode?: number, message = 'of k-1: ada@example.org') =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode } });

describe("a store's response", () => {
  it.each([
    ['AccessDenied', 403, 'destination_permission', 'auth', /s3:PutObject/],
    ['InvalidAccessKeyId', 403, 'destination_login', 'auth', /access_key_id/],
    ['SignatureDoesNotMatch', 403, 'destination_login', 'auth', /secret_access_key/],
    ['ExpiredToken', 400, 'destination_login', 'auth', /environment/],
    ['Unauthorized', 401, 'destination_login', 'auth', /access_key_id/],
    ['CredentialsProviderError', undefined, 'destination_login', 'auth', /access_key_id/],
    ['RequestTimeTooSkewed', 403, 'destination_login', 'auth', /clock/],
    ['NoSuchBucket', 404, 'destination_refused', 'fatal', /create it/],
    ['PermanentRedirect', 301, 'destination_refused', 'fatal', /region/],
    ['AuthorizationHeaderMalformed', 400, 'destination_refused', 'fatal', /region/],
    ['InvalidArgument', 400, 'destination_refused', 'fatal', undefined],
    ['RequestTimeout', 408, 'destination_unavailable', 'retryable', undefined],
    ['TooManyRequests', 429, 'destination_unavailable', 'retryable', undefined],
    ['InternalError', 500, 'destination_unavailable', 'retryable', undefined],
    ['SlowDown', 503, 'destination_unavailable', 'retryable', undefined],
    ['TimeoutError', undefined, 'destination_unavailable', 'retryable', undefined],
  ] as const)('%s (%s) is %s, and its own words are not repeated', (name, status, code, kind, hint) => {
    const error = s3Error(response(name, status), at) as { code: string; kind: string; message: string; hint?: string };
    expect([error.code, error.kind]).toEqual([code, kind]);
    if (hint !== undefined) expect(error.hint).toMatch(hint);
    expect(`${error.message} ${error.hint}`).not.toContain('ada@example.org');
  });

  it('that no certificate vouches for, or a region that is missing, says what to give', () => {
    const untrusted = Object.assign(new Error('self-signed'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    expect(s3Error(untrusted, at)).toMatchObject({ hint: expect.stringContaining('NODE_EXTRA_CA_CERTS') });
    expect(s3Error(new Error('Region is missing'), at)).toMatchObject({ hint: 'set `region`' });
  });

  it('is not confused with an abort or an error of cdsync, which stay unchanged', () => {
    const aborted = new DOMException('stopped', 'AbortError');
    const own = unavailable('the manifests change too fast');
    expect([s3Error(aborted, at), s3Error(own, at)]).toEqual([aborted, own]);
  });
});

it('an object that is missing is distinguished from a bucket that is', () => {
  expect([isMissing(response('NoSuchKey', 404)), isMissing(response('NotFound', 404))]).toEqual([true, true]);
  expect([isMissing(response('NoSuchBucket', 404)), isMissing(response('AccessDenied', 403))]).toEqual([false, false]);
});

it('a condition that does not hold is distinguished from other refusals', () => {
  const conflicts = [response('PreconditionFailed', 412), response('ConditionalRequestConflict', 409)];
  // 409 says that another request is under way, not how the condition ends.
  expect(conflicts.map(isPreconditionFailure)).toEqual([true, false]);
  expect(s3Error(conflicts[1], { place: 's3://b', bucket: 'b' })).toMatchObject({ kind: 'retryable' });
  expect(isPreconditionFailure(response('NotImplemented', 501))).toBe(false);
});

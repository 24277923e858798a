import { describe, expect, it } from 'vitest';
import { azureError } from '../../../src/sdk/azure/azure-errors.js';
import { objectStoreRules } from '../../../src/sdk/object-stores.js';

const at = { place: 'az://crm/in', container: 'crm' };
const failure = (statusCode: number, errorCode: string) =>
  Object.assign(new Error('https://x.blob.core.windows.net/crm/in/a?sig=secret'), {
    statusCode,
    details: { errorCode },
  });

describe('a failure of Azure', () => {
  it.each([
    [403, 'AuthenticationFailed', 'destination_login'],
    [401, 'InvalidAuthenticationInfo', 'destination_login'],
    [403, 'AuthorizationPermissionMismatch', 'destination_permission'],
    [409, 'BlobImmutableDueToPolicy', 'destination_permission'],
    [404, 'ContainerNotFound', 'destination_refused'],
    [400, 'InvalidResourceName', 'destination_refused'],
    [409, 'ContainerBeingDeleted', 'destination_unavailable'],
    [429, 'TooManyRequests', 'destination_unavailable'],
    [503, 'ServerBusy', 'destination_unavailable'],
  ])('%i %s becomes %s, without what Azure repeats of the request', (status, name, code) => {
    const error = azureError(failure(status, name), at) as { code: string; message: string; hint?: string };
    expect(error.code).toBe(code);
    expect(`${error.message} ${error.hint}`).not.toContain('sig=');
    expect(error.message).toContain(name === 'ContainerNotFound' ? '"crm"' : name);
  });

  it('of the login or the connection is named', () => {
    const named = (name: string, code: string) => azureError(Object.assign(new Error('x'), { name, code }), at);
    expect(named('AggregateAuthenticationError', '')).toMatchObject({ code: 'destination_login' });
    expect(named('RestError', 'SELF_SIGNED_CERT_IN_CHAIN')).toMatchObject({ code: 'destination_tls' });
    expect(named('RestError', 'ECONNREFUSED')).toMatchObject({ code: 'destination_unavailable' });
  });
});

describe('the options of object stores', () => {
  const found = (options: object) => objectStoreRules(options as never).map(({ path, message }) => [path[0], message]);

  it.each([
    [{ url: 'az://crm/in' }, [[undefined, '`account` is missing: it names the storage account']]],
    [
      { url: 'az://crm/in', account: 'a', account_key: 'k', sas: 's' },
      [['sas', 'give `account_key` or `sas`, not both']],
    ],
    [{ url: 'az://crm/in', account: 'a', region: 'eu' }, [['region', 'needs `url`, which must begin with s3://']]],
    [{ url: 's3://crm/in', account: 'a' }, [['account', 'needs `url`, which must begin with az://']]],
    [{ url: 's3://crm/in', endpoint: 'http://127.0.0.1:9000/a' }, [['endpoint', 'must have no path']]],
    [{ path: 'out', endpoint: 'http://x' }, [['endpoint', 'needs `url`, which must begin with s3:// or az://']]],
    [{ url: 'az://crm/in', account: 'a', endpoint: 'http://127.0.0.1:9000/a' }, []],
    [{ url: 'az://crm/in', account: 'a', account_key: 'k' }, []],
  ])('%j', (options, findings) => expect(found(options)).toEqual(findings));
});

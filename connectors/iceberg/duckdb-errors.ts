import { type CdsyncError, duckdbRefused, loadRefused, permissionMissing, unavailable } from '../../src/sdk/index.js';

/** The error for a failure of DuckDB, without DuckDB's message: that may quote rows and names of files. */
export function duckdbError(cause: unknown): CdsyncError {
  const message = cause instanceof Error ? cause.message : String(cause);
  const told = { cause, causeQuotesValues: true };
  if (/NoSuchBucket|bucket does not exist/i.test(message))
    return loadRefused('the object store has no such bucket', {
      ...told,
      hint: 'does the warehouse of the catalog lie there?',
    });
  if (
    /\b(401|403)\b|AccessDenied|Forbidden|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Authentication/i.test(
      message,
    )
  )
    return permissionMissing('the object store refuses access', {
      ...told,
      hint: 'check `access_key_id` and `secret_access_key`, or which credentials the catalog gives; `credentials: environment` uses those of this machine',
    });
  if (/permission denied|read-only file system/i.test(message))
    return permissionMissing('the folder of the warehouse may not be written', {
      ...told,
      hint: 'run as a user who may write it',
    });
  if (
    /could not (connect|establish)|connection (refused|reset|error)|timed? ?out|HTTP Error.*\b(408|429|5\d\d)\b|SSL/i.test(
      message,
    )
  )
    return unavailable('no answer from the object store', { ...told, hint: 'check `endpoint` and `region`' });
  if (/\b404\b|no such file|does not exist|cannot open file/i.test(message))
    return loadRefused('a file of the table, or its bucket, is not there', {
      ...told,
      hint: 'does the warehouse of the catalog lie where this machine can reach it?',
    });
  if (/duplicate name .* in struct/i.test(message))
    return loadRefused('DuckDB cannot change rows of a table whose partitions have been changed', {
      ...told,
      hint: 'merge by a Trino server, `engine: { trino: URL }`; or give the stream another table with `table:`',
    });
  return duckdbRefused('DuckDB refused a statement', message, { cause });
}

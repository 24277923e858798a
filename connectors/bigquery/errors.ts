import { CdsyncError, printable, serverErrors, valueRefused } from '../../src/sdk/index.js';
import type { BigqueryFailure } from './sdk.js';

export interface Place {
  readonly project: string;
  readonly dataset: string;
}

/** The API's reasons for failures that are temporary. */
const passing = new Set([
  ...['backendError', 'internalError', 'jobBackendError', 'jobInternalError', 'jobRateLimitExceeded'],
  ...['rateLimitExceeded', 'quotaExceeded', 'stopped', 'timeout', 'tableUnavailable'],
]);
const logins = /invalid_grant|invalid_client|default credentials|invalid_rapt|Invalid JWT|ENOENT|unregistered callers/i;
const gone = /^(E[A-Z_]+|UND_ERR_\w+)$/;

function grants({ project, dataset }: Place): string {
  return `GRANT \`roles/bigquery.dataEditor\` ON SCHEMA \`${project}\`.\`${dataset}\` TO "serviceAccount:…"; and roles/bigquery.jobUser in the project`;
}

function apiError(error: BigqueryFailure, place: Place): CdsyncError {
  const reason = error.errors?.[0]?.reason ?? '';
  const code = Number(error.code);
  const message = `${printable(error.message)} (${reason || error.code})`;
  const errors = serverErrors('BigQuery', message, error);
  if (code === 401 || logins.test(error.message))
    return errors.login('check `key_file` or `credentials`, or the credentials that the environment gives instead');
  if (
    passing.has(reason) ||
    code === 429 ||
    code >= 500 ||
    /concurrent update|concurrent transaction/i.test(error.message)
  )
    return errors.passing();
  if (reason === 'accessDenied' || code === 403)
    return errors.permission(`an administrator can grant all that is needed: ${grants(place)}`);
  if (reason === 'notFound' || code === 404)
    return errors.permission(
      `check \`project\`, \`dataset\` and \`location\`; CREATE SCHEMA \`${place.project}\`.\`${place.dataset}\`; creates the dataset`,
    );
  // From a load job: the message may quote values of rows.
  if (reason === 'invalid') return valueRefused('BigQuery refuses a file (invalid)', error);
  return errors.statement();
}

/** Whether a query failed because its session has been ended: by another delivery to the same destination. */
export function isSessionGone(error: unknown): boolean {
  const { cause } = error as { cause?: { readonly message?: string } };
  return /\bsession\b.{0,200}(?:not found|expired|terminated|aborted|no longer)/is.test(cause?.message ?? '');
}

/** Any failure of @google-cloud/bigquery as an error of cdsync. */
export function bigqueryError(thrown: unknown, place: Place): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const error = thrown as BigqueryFailure;
  const isGone = typeof error.code === 'string' && gone.test(error.code) && error.code !== 'ENOENT';
  if (isGone || /socket hang up|network|fetch failed/i.test(error.message))
    return serverErrors('BigQuery', printable(error.message), thrown).gone();
  return apiError(error, place);
}

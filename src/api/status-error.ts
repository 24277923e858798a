import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import type { ErrorCode, ErrorKind } from '../core/error-codes.js';
import { printable } from '../core/printable.js';
import type { ApiGroup, AuthOptions } from '../core/service-options.js';
import { ServiceError } from './errors.js';
import type { AddressOption } from './failure-error.js';
import type { ServiceResponse } from './response-reader.js';

/** A larger error body does not come from the service, but for example from a proxy. */
const maxErrorBodyBytes = 64 * 1024;

const text = z.string().optional().catch(undefined);
/** Specification, section 2.6; every member is optional, because proxies answer too. */
const errorBody = z.object({
  message: text,
  request_id: text,
  trace_id: text,
  // OAuth endpoints answer with these instead (RFC 6749, section 5.2).
  error: text,
  error_description: text,
});

interface StatusContext {
  readonly label: string;
  /** Left out if the operation belongs to no API group. */
  readonly group?: ApiGroup;
  readonly attempts: number;
  readonly auth: AuthOptions['type'];
  readonly permissions: readonly string[] | undefined;
  /** {@link Operation.permissionInstead} */
  readonly permissionInstead?: string | undefined;
  /** Takes secrets and personal values out of the service's message. */
  readonly redact: (text: string) => string;
  /** Instead of the usual hint. */
  readonly hint?: string | undefined;
}

/** Whether the same request may get another answer later; true for 429. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** The error that users see for an answer that is not a success. */
export function statusError(answer: ServiceResponse, context: StatusContext): ServiceError {
  const { status } = answer;
  const said = readErrorBody(answer, context.redact);
  const ids = [
    said.requestId === undefined ? '' : `request id ${said.requestId}`,
    said.traceId === undefined ? '' : `trace id ${said.traceId}`,
  ].filter((id) => id !== '');
  const message = [
    `${context.label} ${status >= 500 ? 'failed with' : 'was refused with'} ${status}`,
    context.attempts > 1 ? `, tried ${context.attempts} times` : '',
    `: ${said.message ?? STATUS_CODES[status] ?? 'an unknown status'}`,
    ids.length === 0 ? '' : ` (${ids.join(', ')})`,
  ].join('');
  const { code, kind, hint } = classify(status, said.message ?? '', context);
  return new ServiceError(message, {
    code,
    kind,
    hint: context.hint ?? hint,
    status,
    serviceMessage: said.message,
    requestId: said.requestId,
    traceId: said.traceId,
  });
}

/** The error for a redirect. cdsync never follows one: that would send the token elsewhere. */
export function redirectError(
  { status, headers }: ServiceResponse,
  label: string,
  option: AddressOption = 'base_url',
): ServiceError {
  const { location } = headers;
  const target = typeof location === 'string' && URL.canParse(location) ? new URL(location) : undefined;
  return new ServiceError(`${label} was answered with a redirect (${status})${target ? ` to ${target.host}` : ''}`, {
    code: 'redirected',
    status,
    hint:
      target === undefined
        ? `is \`${option}\` right?${option === 'base_url' ? ' It must not end in /api or /prof' : ''}`
        : `set \`${option}\` to ${addressOf(target, option)} if that is the service: cdsync sends credentials and tokens to no other address`,
  });
}

/** What of a redirect's target the option would hold. */
function addressOf({ origin, pathname }: URL, option: AddressOption): string {
  return option === 'base_url' ? origin : origin + pathname;
}

interface Classified {
  readonly code: ErrorCode;
  readonly kind?: ErrorKind;
  readonly hint?: string | undefined;
}

function classify(status: number, said: string, context: StatusContext): Classified {
  const versionHint = /version/i.test(said)
    ? 'check `api_versions`: the service seems to refuse the one sent'
    : undefined;
  if (status === 401) return { code: 'unauthorized', hint: versionHint ?? tokenHints[context.auth] };
  if (status === 403) return { code: 'forbidden', hint: permissionHint(context) };
  if (status === 404) {
    return { code: 'not_found', hint: context.group === 'realtime' ? realtimeHint : undefined };
  }
  if (status === 405) return { code: 'method_not_allowed', hint: versionHint };
  if (status === 409) return { code: 'conflict' };
  if (status === 429) {
    return {
      code: 'too_many_requests',
      hint: 'something else uses up the limit of the tenant: lower `rate_limits`, or run at another time',
    };
  }
  if (status === 408) return { code: 'timeout' };
  if (status >= 500) {
    return {
      code: 'service_unavailable',
      kind: isRetryableStatus(status) ? 'retryable' : 'fatal',
      hint: 'the service has trouble; run again later: everything read so far is kept',
    };
  }
  return { code: 'bad_request', hint: versionHint };
}

const tokenHints: Record<AuthOptions['type'], string> = {
  token:
    'the token is not valid for this tenant: it has expired, was revoked or was rotated; issue another for an API key of `tenant_id`',
  token_file:
    'the token in the file is not valid for this tenant: put a newly issued one there, for an API key of `tenant_id`',
  client_credentials: 'the service refuses the token that it issued: check that the credentials belong to `tenant_id`',
};

/** Specification, section 1: the Real-time API does not exist for a tenant until the operator has enabled it. */
const realtimeHint =
  'is the id right? If so, real-time features may not be enabled for this tenant: the operator of the service enables them';

function permissionHint({ permissions = [], permissionInstead }: StatusContext): string {
  const all = permissions.length === 0 ? 'it' : permissions.join(' and ');
  const needed = permissionInstead === undefined ? all : `${all} (or ${permissionInstead})`;
  return `give the API key a policy that allows ${needed}; a sandbox has its own keys, which are not copied from production`;
}

interface ServiceSaid {
  readonly message?: string | undefined;
  readonly requestId?: string | undefined;
  readonly traceId?: string | undefined;
}

function readErrorBody({ body }: ServiceResponse, redact: (text: string) => string): ServiceSaid {
  if (body.length > maxErrorBodyBytes) return {};
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString('utf8'));
  } catch {
    return {};
  }
  const result = errorBody.safeParse(parsed);
  if (!result.success) return {};
  const { request_id, trace_id, error, error_description } = result.data;
  const message = result.data.message ?? ([error, error_description].filter(Boolean).join(': ') || undefined);
  const clean = (value: string | undefined) =>
    value === undefined ? undefined : printable(redact(value)) || undefined;
  return { message: clean(message), requestId: clean(request_id), traceId: clean(trace_id) };
}

import { z } from 'zod';
import { redactor, type Secret } from '../core/secret.js';
import type { ServiceOptions } from '../core/service-options.js';
import type { IssuedToken } from './oauth-token.js';
import { objectDecoder } from './paging.js';
import { encodeQuery } from './request.js';
import { shownBy } from './response-check.js';
import type { ServiceResponse } from './response-reader.js';
import { AttemptFailure, failedExchange, retryAfterMs } from './retry.js';
import {
  type AddressOption,
  isRetryableStatus,
  MalformedBodyError,
  redirectError,
  ServiceError,
  statusError,
} from './service-error.js';
import { tokenLifetimeMs, usableToken } from './token-source.js';
import type { Transport, WireRequest } from './transport.js';
import { TransportError } from './transport-error.js';

const usualPath = '/api/v0/oauth2/token';

/** The unit of `expires_in` is not specified; services send seconds (published facts, OAuth). */
const tokenAnswer = objectDecoder(
  z.object({ access_token: z.string().min(1), expires_in: z.coerce.number().positive().optional().catch(undefined) }),
);

interface OauthContext {
  readonly service: Pick<ServiceOptions, 'tenantId' | 'oauthTenantHeader' | 'oauthTokenUrl'>;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly userAgent: string;
  /** To `oauthTokenUrl`, or else to the service. */
  readonly transport: Transport;
  /** The time of day in milliseconds. */
  readonly now: () => number;
}

/**
 * Exchanges client credentials for an access token, in one attempt (specification, section 4.9).
 * @throws {AttemptFailure} `oauth_failed`, of kind `auth` if the credentials were refused; the error of a request without an answer
 * @throws {CdsyncError} `interrupted`
 */
export function exchangeCredentials(context: OauthContext, signal: AbortSignal): Promise<IssuedToken> {
  return attempt(context, tokenRequest(context), signal);
}

interface Endpoint {
  readonly path: string;
  readonly label: string;
  /** The option that says where it is. */
  readonly option: AddressOption;
}

function endpointOf({ oauthTokenUrl }: OauthContext['service']): Endpoint {
  const path = oauthTokenUrl === undefined ? usualPath : new URL(oauthTokenUrl).pathname;
  return { path, label: `POST ${path}`, option: oauthTokenUrl === undefined ? 'base_url' : 'oauth_token_url' };
}

function tokenRequest({ service, clientId, clientSecret, userAgent }: OauthContext): WireRequest {
  return {
    method: 'POST',
    target: endpointOf(service).path,
    headers: [
      service.oauthTenantHeader,
      service.tenantId,
      'content-type',
      'application/x-www-form-urlencoded',
      'accept',
      'application/json',
      'user-agent',
      userAgent,
    ],
    body: encodeQuery([
      ['grant_type', 'client_credentials'],
      ['client_id', clientId],
      ['client_secret', clientSecret.reveal()],
    ]),
  };
}

async function attempt(context: OauthContext, request: WireRequest, signal: AbortSignal): Promise<IssuedToken> {
  const { transport, service } = context;
  const { label, option } = endpointOf(service);
  let sent = false;
  const observer = {
    onSent: () => {
      sent = true;
    },
    onAnswer: () => undefined,
  };
  let answer: ServiceResponse;
  try {
    answer = await transport.exchange(request, signal, observer);
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    throw failedExchange(error, { label, host: transport.host, sent, idempotent: true, option });
  }
  answer.release();
  if (answer.status !== 200 && answer.status !== 201) throw refusal(context, answer);
  return issued(answer, label);
}

function issued({ body }: ServiceResponse, label: string): IssuedToken {
  try {
    const { access_token, expires_in } = tokenAnswer(body);
    const token = usableToken(access_token, 'the token that the service issued');
    return { token, lifetimeMs: expires_in === undefined ? tokenLifetimeMs(token) : expires_in * 1000 };
  } catch (error) {
    if (!(error instanceof MalformedBodyError)) throw error;
    const details = { code: 'oauth_failed', kind: 'retryable', cause: error } as const;
    throw new AttemptFailure(
      () => new ServiceError(`${label} got an answer without a usable token: ${error.message}`, details),
      { again: 'later', shows: 'away', reason: 'no usable token', isUnreadable: true },
    );
  }
}

const notFoundHints: Record<AddressOption, string> = {
  base_url:
    'is `base_url` right? It must not end in /api. If tokens come from a host of their own, set `oauth_token_url`',
  oauth_token_url: 'is `oauth_token_url` right? It is the whole URL of the token endpoint',
};

function refusal({ clientSecret, now, service }: OauthContext, answer: ServiceResponse): AttemptFailure {
  const { label, option } = endpointOf(service);
  const { status, headers } = answer;
  const about = { shows: shownBy(status), reason: `${status} from the token endpoint` };
  if (status >= 300 && status < 400)
    return new AttemptFailure(() => redirectError(answer, label, option), { again: 'never', ...about });
  const toError = (attempts: number) => {
    const redact = redactor([clientSecret]);
    const error = statusError(answer, { label, attempts, auth: 'client_credentials', permissions: undefined, redact });
    const refused = status === 400 || status === 401 || status === 403;
    // Without its status: whoever judges the status of an answer asks about the operation, not about its token.
    return new ServiceError(error.message, {
      code: 'oauth_failed',
      serviceMessage: error.serviceMessage,
      requestId: error.requestId,
      traceId: error.traceId,
      kind: refused ? 'auth' : error.kind,
      hint: refused
        ? 'check `auth.client_id`, `auth.client_secret` and `tenant_id`: the credentials belong to an API key of one tenant'
        : status === 404
          ? notFoundHints[option]
          : error.hint,
    });
  };
  const again = !isRetryableStatus(status) ? 'never' : status === 429 ? 'when_allowed' : 'later';
  return new AttemptFailure(toError, { again, waitMs: retryAfterMs(headers, now()), ...about });
}

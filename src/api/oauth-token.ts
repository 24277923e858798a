import type { Clock } from '../core/clock.js';
import { interrupted } from '../core/errors.js';
import { abortable } from '../core/on-abort.js';
import { retryAfterMs } from '../core/retry-after.js';
import { redactor, Secret } from '../core/secret.js';
import type { ServiceOptions } from '../core/service-options.js';
import { z } from '../core/zod.js';
import { objectDecoder } from './paging.js';
import { encodeQuery } from './request.js';
import { shownBy } from './response-check.js';
import type { ServiceResponse } from './response-reader.js';
import { AttemptFailure, failedExchange } from './retry.js';
import {
  type AddressOption,
  isRetryableStatus,
  MalformedBodyError,
  redirectError,
  ServiceError,
  statusError,
} from './service-error.js';
import { StaticToken, TokenFile, type TokenSource, tokenLifetimeMs, usableToken } from './token-source.js';
import type { Transport, WireRequest } from './transport.js';
import { TransportError } from './transport-error.js';

/** A token is renewed this long before it expires, or after four fifths of its life if that is later. */
const renewBeforeMs = 60_000;
const renewBeforeShare = 0.2;
/** The wait after a failed renewal while the old token is still valid; it doubles with each further one, up to the longest. */
const holdOffMs = 1_000;
const maxHoldOffMs = 30_000;

interface IssuedToken {
  readonly token: string;
  /** Counted from the request; undefined if the service did not say. */
  readonly lifetimeMs: number | undefined;
}

interface KeptToken {
  readonly secret: Secret;
  readonly renewAt: number;
  readonly endsAt: number;
}

/**
 * Tokens from OAuth client credentials (specification, section 4.9). States: *none* until the first request; *fresh*; *due*:
 * requests still use the old token while one renewal is under way; *ended*: requests wait for the renewal. A 401 makes the
 * refused token *ended*, unless another has replaced it since.
 */
class OauthToken implements TokenSource {
  readonly #exchange: (signal: AbortSignal) => Promise<IssuedToken>;
  readonly #clientSecret: Secret;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #kept: KeptToken | undefined;
  #previous: Secret | undefined;
  #renewal: Promise<void> | undefined;
  #holdOffUntil = Number.NEGATIVE_INFINITY;
  #holdOffMs = holdOffMs;

  /** @param exchange asks for a token once */
  constructor(exchange: (signal: AbortSignal) => Promise<IssuedToken>, clientSecret: Secret, clock: Clock) {
    this.#exchange = exchange;
    this.#clientSecret = clientSecret;
    this.#clock = clock;
  }

  current(): string | undefined {
    const kept = this.#kept;
    if (kept === undefined) return undefined;
    const nowMs = this.#clock.monotonic();
    if (nowMs >= kept.endsAt) return undefined;
    if (nowMs >= kept.renewAt && nowMs >= this.#holdOffUntil) {
      this.#renewOnce().catch(() => {
        this.#holdOffUntil = this.#clock.monotonic() + this.#holdOffMs;
        this.#holdOffMs = Math.min(maxHoldOffMs, this.#holdOffMs * 2);
      });
    }
    return kept.secret.reveal();
  }

  async obtain(signal: AbortSignal): Promise<string> {
    const ready = this.current();
    if (ready !== undefined) return ready;
    await abortable(this.#renewOnce(), signal);
    return (this.#kept as KeptToken).secret.reveal();
  }

  async renew(refused: string, signal: AbortSignal): Promise<boolean> {
    const kept = this.#kept;
    if (kept !== undefined && kept.secret.reveal() !== refused) return true;
    // If the renewal fails, the refused token must not be sent again.
    if (kept !== undefined) this.#kept = { ...kept, endsAt: Number.NEGATIVE_INFINITY };
    await abortable(this.#renewOnce(), signal);
    return true;
  }

  secrets(): Iterable<Secret> {
    return [this.#clientSecret, this.#kept?.secret, this.#previous].filter((secret) => secret !== undefined);
  }

  close(): void {
    this.#closing.abort();
  }

  #renewOnce(): Promise<void> {
    this.#renewal ??= this.#renewNow().finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  async #renewNow(): Promise<void> {
    if (this.#closing.signal.aborted) throw interrupted();
    const asked = this.#clock.monotonic();
    const { token, lifetimeMs } = await this.#exchange(this.#closing.signal);
    this.#holdOffMs = holdOffMs;
    const life = lifetimeMs ?? Number.POSITIVE_INFINITY;
    this.#previous = this.#kept?.secret;
    this.#kept = {
      secret: new Secret(token),
      endsAt: asked + life,
      renewAt: asked + life - Math.min(renewBeforeMs, life * renewBeforeShare),
    };
  }
}

const usualPath = '/api/v0/oauth2/token';

/** The unit of `expires_in` is not specified; services send seconds (published notes, OAuth). */
const tokenResponse = objectDecoder(
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
    onResponse: () => undefined,
  };
  let response: ServiceResponse;
  try {
    response = await transport.exchange(request, signal, observer);
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    throw failedExchange(error, { label, host: transport.host, sent, idempotent: true, option });
  }
  response.body.dispose();
  if (response.status !== 200 && response.status !== 201) throw refusal(context, response);
  return issued(response, label);
}

function issued({ body }: ServiceResponse, label: string): IssuedToken {
  try {
    const { access_token, expires_in } = tokenResponse(body.bytes);
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

function refusal({ clientSecret, now, service }: OauthContext, response: ServiceResponse): AttemptFailure {
  const { label, option } = endpointOf(service);
  const { status, headers } = response;
  const about = { shows: shownBy(status), reason: `${status} from the token endpoint` };
  if (status >= 300 && status < 400)
    return new AttemptFailure(() => redirectError(response, label, option), { again: 'never', ...about });
  const toError = (attempts: number) => {
    const redact = redactor([clientSecret]);
    const error = statusError(response, {
      label,
      attempts,
      auth: 'client_credentials',
      permissions: undefined,
      redact,
    });
    const refused = status === 400 || status === 401 || status === 403;
    // Without its status: a caller that checks a status asks about the operation, not about its token.
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

interface TokenSourceContext {
  readonly service: ServiceOptions;
  readonly clock: Clock;
  readonly userAgent: string;
  readonly transport: Transport;
}

/** The token source that the configuration asks for. */
export function openTokenSource({ service, clock, ...context }: TokenSourceContext): TokenSource {
  const { auth } = service;
  switch (auth.type) {
    case 'token':
      return new StaticToken(auth.token);
    case 'token_file':
      return new TokenFile(auth.path, clock);
    case 'client_credentials': {
      const { clientId, clientSecret } = auth;
      const tokenContext = { ...context, service, clientId, clientSecret, now: () => clock.now() };
      const exchange = (signal: AbortSignal) => attempt(tokenContext, tokenRequest(tokenContext), signal);
      return new OauthToken(exchange, clientSecret, clock);
    }
  }
}

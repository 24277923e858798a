import type { Clock } from '../core/clock.js';
import type { ServiceOptions } from '../core/service-options.js';
import { exchangeCredentials } from './oauth-exchange.js';
import { OauthToken } from './oauth-token.js';
import { StaticToken, TokenFile, type TokenSource } from './token-source.js';
import type { Transport } from './transport.js';

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
      const exchange = (signal: AbortSignal) =>
        exchangeCredentials({ ...context, service, clientId, clientSecret, now: () => clock.now() }, signal);
      return new OauthToken(exchange, clientSecret, clock);
    }
  }
}

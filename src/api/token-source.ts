import { decodeJwt } from 'jose/jwt/decode';
import { CdsyncError } from '../core/errors.js';
import type { Secret } from '../core/secret.js';

/** Where the bearer tokens of a client come from (specification, sections 4.9 and 5). */
export interface TokenSource {
  /** The token to send now, if there is one without waiting. */
  current(): string | undefined;
  /**
   * The token to send now; waits for one if there is none yet.
   * @throws {CdsyncError} `token_unusable`, `oauth_failed`, and the errors of the exchange; `interrupted`
   */
  obtain(signal: AbortSignal): Promise<string>;
  /**
   * Call it when the service answers 401 to a token. Calls share one renewal at a time.
   * @returns whether there is another token to try
   */
  renew(refused: string, signal: AbortSignal): Promise<boolean>;
  /** The secrets that must not appear in any message. */
  secrets(): Iterable<Secret>;
  /** Ends the renewal that is under way; its callers get `interrupted`. */
  close(): void;
}

/** A fixed token from the configuration. */
export class StaticToken implements TokenSource {
  readonly #token: Secret;
  #checked: string | undefined;

  constructor(token: Secret) {
    this.#token = token;
  }

  current(): string | undefined {
    return this.#checked;
  }

  async obtain(): Promise<string> {
    this.#checked = usableToken(this.#token.reveal(), 'the token');
    return this.#checked;
  }

  async renew(): Promise<boolean> {
    return false;
  }

  secrets(): Iterable<Secret> {
    return [this.#token];
  }

  close(): void {}
}

/**
 * The text as a bearer token: trimmed, and without a leading `Bearer`, which people often copy with the token.
 * @param where its origin, for messages: `the token in /run/token`
 * @throws {CdsyncError} `token_unusable` if it is empty or has characters that no header may have
 */
export function usableToken(text: string, where: string): string {
  const token = text.trim().replace(/^bearer\s+/i, '');
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new CdsyncError(`${where} ${token === '' ? 'is empty' : 'has characters that no token has'}`, {
    code: 'token_unusable',
    hint: 'give the access token as it was shown when it was issued, on one line',
  });
}

/** A token's lifetime by its own `iat` and `exp` claims, counted from its issue; undefined if it lacks them. */
export function tokenLifetimeMs(token: string): number | undefined {
  try {
    const { exp, iat } = decodeJwt(token);
    return exp === undefined || iat === undefined || exp <= iat ? undefined : (exp - iat) * 1000;
  } catch {
    return undefined;
  }
}

/** When a token expires by its own `exp` claim; undefined if it has none or is not a JSON Web Token. */
export function tokenExpiry(token: string): Date | undefined {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? undefined : new Date(exp * 1000);
  } catch {
    return undefined;
  }
}

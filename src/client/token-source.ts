import { decodeJwt } from 'jose/jwt/decode';
import { CdsyncError } from '../core/errors.js';
import type { Secret } from '../core/secret.js';

/** Where the bearer tokens of a client come from (specification, sections 4.9 and 5). */
export interface TokenSource {
  /** The token to send now, if there is one without waiting. */
  current(): string | undefined;
  /**
   * The token to send now, after whatever it takes to get one.
   * @throws {CdsyncError} `token_unusable`, `oauth_failed`, and what the exchange throws; `interrupted`
   */
  obtain(signal: AbortSignal): Promise<string>;
  /**
   * To be called when the service answered 401 to a token; however many call, one renewal is under way at a time.
   * @returns whether there is another token to try
   */
  renew(refused: string, signal: AbortSignal): Promise<boolean>;
  /** What must not appear in any message. */
  secrets(): Iterable<Secret>;
  /** Ends what is under way; who waits gets `interrupted`. */
  close(): void;
}

/** A token that was given and stays as it is. */
export class GivenToken implements TokenSource {
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
 * The text as a bearer token: trimmed, and without a leading `Bearer`, which people copy along.
 * @param where what to call its origin in messages: `the token in /run/token`
 * @throws {CdsyncError} `token_unusable` where it is empty or has characters that no header may have
 */
export function usableToken(text: string, where: string): string {
  const token = text.trim().replace(/^bearer\s+/i, '');
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new CdsyncError(`${where} ${token === '' ? 'is empty' : 'has characters that no token has'}`, {
    code: 'token_unusable',
    kind: 'auth',
    hint: 'give the access token as it was shown when it was issued, on one line',
  });
}

/** How long a token lives by its own `iat` and `exp` claims, from its issue on; undefined where it does not say. */
export function tokenLifetimeMs(token: string): number | undefined {
  try {
    const { exp, iat } = decodeJwt(token);
    return exp === undefined || iat === undefined || exp <= iat ? undefined : (exp - iat) * 1000;
  } catch {
    return undefined;
  }
}

/** When a token ends by its own `exp` claim; undefined where it has none or is no JSON Web Token. */
export function tokenExpiry(token: string): Date | undefined {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? undefined : new Date(exp * 1000);
  } catch {
    return undefined;
  }
}

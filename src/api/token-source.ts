import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { abortable } from '../core/on-abort.js';
import { Secret } from '../core/secret.js';

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
   * Call it when the service responds 401 to a token. Calls share one renewal at a time.
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

/** The times that a JSON Web Token states (RFC 7519, section 4.1); its signature is for the service to check. */
function timesOf(token: string): { readonly exp?: unknown; readonly iat?: unknown } {
  const [, payload = '', signature] = token.split('.');
  if (signature === undefined) return {};
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    return typeof claims === 'object' && claims !== null ? claims : {};
  } catch {
    return {};
  }
}

/** A token's lifetime by its own `iat` and `exp` claims, counted from its issue; undefined if it lacks them. */
export function tokenLifetimeMs(token: string): number | undefined {
  const { exp, iat } = timesOf(token);
  return typeof exp !== 'number' || typeof iat !== 'number' || exp <= iat ? undefined : (exp - iat) * 1000;
}

/** When a token expires by its own `exp` claim; undefined if it has none or is not a JSON Web Token. */
export function tokenExpiry(token: string): Date | undefined {
  const { exp } = timesOf(token);
  return typeof exp === 'number' ? new Date(exp * 1000) : undefined;
}

/** The shortest time between two looks at the file. */
const lookEveryMs = 1_000;

/**
 * A token in a file that another program keeps up to date. While requests are made, the file is looked at once a second, and
 * read again if it has changed; it is also read after a 401. While it is missing or empty, as in the middle of a rotation,
 * the last token is used.
 */
export class TokenFile implements TokenSource {
  readonly #path: string;
  readonly #clock: Clock;
  #token: Secret | undefined;
  #previous: Secret | undefined;
  #version = '';
  #lookAgainAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  current(): string | undefined {
    return this.#clock.monotonic() < this.#lookAgainAt ? this.#token?.reveal() : undefined;
  }

  async obtain(signal: AbortSignal): Promise<string> {
    await abortable(this.#read(false), signal);
    return (this.#token as Secret).reveal();
  }

  async renew(refused: string, signal: AbortSignal): Promise<boolean> {
    if (this.#token?.reveal() === refused) {
      // A read that is under way may have begun before the refusal.
      if (this.#reading !== undefined) await abortable(this.#reading, signal);
      await abortable(this.#read(true), signal);
    }
    return this.#token?.reveal() !== refused;
  }

  secrets(): Iterable<Secret> {
    return [this.#token, this.#previous].filter((token) => token !== undefined);
  }

  close(): void {}

  #read(evenUnchanged: boolean): Promise<void> {
    this.#reading ??= this.#readOnce(evenUnchanged).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(evenUnchanged: boolean): Promise<void> {
    try {
      const { mtimeMs, ino, size } = await stat(this.#path);
      const version = `${mtimeMs} ${ino} ${size}`;
      if (evenUnchanged || version !== this.#version) {
        this.#take(usableToken(await readFile(this.#path, 'utf8'), `the token in ${this.#path}`));
        this.#version = version;
      }
    } catch (error) {
      if (this.#token === undefined) throw this.#unusable(error);
    }
    this.#lookAgainAt = this.#clock.monotonic() + lookEveryMs;
  }

  #take(token: string): void {
    if (token === this.#token?.reveal()) return;
    this.#previous = this.#token;
    this.#token = new Secret(token);
  }

  #unusable(error: unknown): unknown {
    if (error instanceof CdsyncError) return error;
    const code = (error as NodeJS.ErrnoException).code ?? 'an error';
    return new CdsyncError(`the token file ${this.#path} cannot be read: ${code}`, {
      code: 'token_unusable',
      hint: '`auth.token_file` must name a file that holds the access token and that this user may read',
      cause: error,
    });
  }
}

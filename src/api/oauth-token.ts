import type { Clock } from '../core/clock.js';
import { interrupted } from '../core/errors.js';
import { abortable } from '../core/on-abort.js';
import { Secret } from '../core/secret.js';
import type { TokenSource } from './token-source.js';

/** A token is renewed this long before it expires, or after four fifths of its life if that is later. */
const renewBeforeMs = 60_000;
const renewBeforeShare = 0.2;
/** The wait after a failed renewal while the old token is still valid; it doubles with each further one, up to the longest. */
const holdOffMs = 1_000;
const longestHoldOffMs = 30_000;

export interface IssuedToken {
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
 * refused token *ended*, unless another has replaced it meanwhile.
 */
export class OauthToken implements TokenSource {
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
    const now = this.#clock.monotonic();
    if (now >= kept.endsAt) return undefined;
    if (now >= kept.renewAt && now >= this.#holdOffUntil) {
      this.#renewOnce().catch(() => {
        this.#holdOffUntil = this.#clock.monotonic() + this.#holdOffMs;
        this.#holdOffMs = Math.min(longestHoldOffMs, this.#holdOffMs * 2);
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

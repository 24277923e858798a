import type { LimitSource } from './limiter.js';

/** How often the share of 429s is evaluated. */
const evaluationMs = 1_000;
/** The share of 429s that is no evidence of a smaller limit: services refuse single requests for other reasons too. */
const tolerated = 0.02;
/** Fewer 429s than this in a second never take more than half. */
const fewRefused = 3;
/** The largest share of 429s that counts as chance, if it does not fall when fewer requests are sent. */
const maxChance = 0.1;
/** The first step up after a cut, as a share of the limit; each further step is twice as large. */
const firstStep = 0.01;
const minHoldMs = 3_000;
const maxHoldMs = 12_000;

/**
 * How many requests a second the service really accepts, learned from its 429s: the configured limit, until there is evidence of
 * less. Once a second it evaluates the share of 429s:
 *
 * - **Cut**: if the share is larger than tolerated, the limit becomes the number of requests that were accepted. So a few 429s
 *   cost little, and a true limit of any size is found at once.
 * - **Hold**: it stays there for a while, longer each time the same level is found again. 429s that still arrive do
 *   not depend on the number of requests; their share is tolerated from then on, up to a tenth.
 * - **Climb**: then it rises, slowly at first, until the next cut or the configured limit.
 */
export class AdaptiveLimit implements LimitSource {
  #limit: number;
  #ceiling: number;
  /** Responses since `#since`. */
  #responses = 0;
  #refused = 0;
  #since = 0;
  #step = 0;
  #holdMs = minHoldMs;
  #holdUntil = Number.NEGATIVE_INFINITY;
  #isSettling = false;
  /** The share of 429s that does not depend on the number of requests. */
  #chance = 0;

  /** @param limit requests a second, at least 1; rounded down */
  constructor(limit: number) {
    if (!(limit >= 1)) throw new RangeError(`a limiter needs at least 1 request a second, not ${limit}`);
    this.#limit = Math.floor(limit);
    this.#ceiling = this.#limit;
  }

  /** The configured limit. */
  get limit(): number {
    return this.#limit;
  }

  /** Makes the configured limit smaller; a larger `limit` changes nothing. */
  lower(limit: number): void {
    this.#limit = Math.max(1, Math.min(this.#limit, Math.floor(limit)));
    this.#ceiling = Math.min(this.#ceiling, this.#limit);
  }

  /** Requests a second that may be sent at `nowMs`, at least 1. */
  at(nowMs: number): number {
    if (nowMs - this.#since >= evaluationMs) this.#evaluate(nowMs);
    return this.#ceiling;
  }

  /** When it may become larger; infinite if it cannot. */
  get risesAt(): number {
    return this.#ceiling < this.#limit ? this.#since + evaluationMs : Number.POSITIVE_INFINITY;
  }

  /** Counts responses, 429s included. */
  answered(nowMs: number, count = 1): void {
    if (this.#responses === 0 || nowMs - this.#since >= evaluationMs) this.#evaluate(nowMs);
    this.#responses += count;
  }

  /** Counts the 429s among these responses. */
  refused(count = 1): void {
    this.#refused += count;
  }

  /** Evaluates the responses since the last evaluation, and counts from zero again. */
  #evaluate(nowMs: number): void {
    const seconds = (nowMs - this.#since) / 1000;
    if (this.#responses > 0 && seconds < evaluationMs / 1000) return;
    const share = Math.min(1, this.#refused / Math.max(1, this.#responses));
    if (this.#responses === 0) this.#climb(nowMs, Math.floor(seconds));
    else if (this.#isSettling) this.#isSettling = false;
    else if (nowMs < this.#holdUntil && share <= maxChance) this.#learnChance(share);
    else if (share > this.#chance + tolerated) this.#cut(nowMs, share, this.#responses / seconds);
    else {
      if (share < this.#chance) this.#learnChance(share);
      this.#climb(nowMs, 1);
    }
    this.#responses = 0;
    this.#refused = 0;
    this.#since = nowMs;
  }

  #cut(nowMs: number, share: number, perSecond: number): void {
    const accepted = Math.min(this.#ceiling, perSecond) * (1 - share + this.#chance);
    const least = this.#refused < fewRefused ? this.#ceiling / 2 : 1;
    this.#ceiling = Math.floor(Math.max(1, least, accepted));
    const isKnown = share < 0.5 && this.#step > 0;
    this.#holdMs = isKnown ? Math.min(maxHoldMs, this.#holdMs * 2) : minHoldMs;
    this.#holdUntil = nowMs + this.#holdMs;
    // Requests that were already sent may still get 429s.
    this.#isSettling = true;
    this.#step = 0;
  }

  #learnChance(share: number): void {
    this.#chance = this.#chance === 0 ? share : (this.#chance + share) / 2;
  }

  #climb(nowMs: number, seconds: number): void {
    for (let n = 0; n < seconds && this.#ceiling < this.#limit && nowMs >= this.#holdUntil; n += 1) {
      this.#step = Math.max(1, this.#limit * firstStep, this.#step * 2);
      this.#ceiling = Math.min(this.#limit, Math.floor(this.#ceiling + this.#step));
    }
    if (this.#ceiling === this.#limit) this.#step = 0;
  }
}

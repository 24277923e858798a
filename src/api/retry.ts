import type { Clock } from '../core/clock.js';
import { type CdsyncError, interrupted } from '../core/errors.js';
import { formatDuration } from '../core/quantities.js';
import type { ServiceOptions } from '../core/service-options.js';
import { type AddressOption, failureError, isPassing, isUnconnected } from './service-error.js';
import type { TransportError } from './transport-error.js';

export type RetryOptions = ServiceOptions['retry'];

/** Before any request has succeeded, a connection that cannot be made has this long: the address is probably wrong. */
export const connectPatienceMs = 20_000;
/** A response that cannot be read is asked for this often while others can be read. */
export const maxUnreadable = 8;

/** A request that its sender can do without is sent this often if the service responds to it with a status such as 504. */
const maxOptionalAttempts = 3;

/** The longest pause before the first retry of one request; it doubles with each further one. */
const singleMs = 200;
/** The shortest pause before the first probe of an outage; it doubles with each further one. */
const outageMs = 1_000;
/** Pauses of an outage are up to this many times as long, so that processes do not probe at the same moments. */
const jitter = 1.25;

/** The pause after the n-th failure of one request, counted from 1: exponential, with full jitter. */
export function singlePauseMs(
  failures: number,
  { maxDelayMs, random }: Pick<RetryOptions, 'maxDelayMs'> & { readonly random: () => number },
): number {
  return random() * Math.min(maxDelayMs, singleMs * 2 ** Math.min(failures - 1, 30));
}

/** The pause before the n-th probe of an outage, counted from 0. */
export function outagePauseMs(
  probes: number,
  { maxDelayMs, random }: Pick<RetryOptions, 'maxDelayMs'> & { readonly random: () => number },
): number {
  return Math.min(maxDelayMs / jitter, outageMs * 2 ** Math.min(probes, 30)) * (1 + random() * (jitter - 1));
}

/**
 * When a failed attempt may be repeated:
 * - `never`: another attempt cannot succeed, or could do something twice.
 * - `at_once`: the reason is gone, for example the token was renewed.
 * - `later`: after a pause, for as long as `retry.patience` allows.
 * - `when_allowed`: the same for a 429, to which the budget reacts too.
 */
export type RetryWhen = 'never' | 'at_once' | 'later' | 'when_allowed';

/** A failure as a sign of the service's state: that it is away, that it responds, or neither (a 401, a 429). */
export type ServiceState = 'away' | 'alive' | 'nothing';

interface AttemptFailureDetails {
  readonly again: RetryWhen;
  readonly shows: ServiceState;
  /** In a few words, for notices: `503`, `no connection`. */
  readonly reason: string;
  /** There was no connection, or what answered was not the service: before the first success, the address may be wrong. */
  readonly isUnconnected?: boolean;
  /** The response was whole, but cannot be read. */
  readonly isUnreadable?: boolean;
  /** A response began, but did not come whole, or not so that it can be read. */
  readonly isPartial?: boolean;
  /** Milliseconds that the service asked to wait. */
  readonly waitMs?: number | undefined;
}

/** One failed attempt, with the error that it becomes if it is the last; never leaves the client. */
export class AttemptFailure extends Error {
  readonly again: RetryWhen;
  readonly shows: ServiceState;
  readonly reason: string;
  readonly isUnconnected: boolean;
  readonly isUnreadable: boolean;
  readonly isPartial: boolean;
  readonly waitMs: number;
  readonly toError: (attempts: number) => CdsyncError;

  constructor(toError: (attempts: number) => CdsyncError, details: AttemptFailureDetails) {
    super(details.reason);
    this.toError = toError;
    this.again = details.again;
    this.shows = details.shows;
    this.reason = details.reason;
    this.isUnconnected = details.isUnconnected ?? false;
    this.isUnreadable = details.isUnreadable ?? false;
    this.isPartial = details.isPartial ?? false;
    this.waitMs = details.waitMs ?? 0;
  }

  /** The same failure of a request whose sender can do without it: few attempts, and no sign of the service's state. */
  ofOptional(attempts: number): AttemptFailure {
    if (this.again !== 'later') return this;
    const again = attempts < maxOptionalAttempts && this.waitMs === 0 ? 'later' : 'never';
    return new AttemptFailure(this.toError, { again, shows: 'nothing', reason: this.reason });
  }

  /** The same failure with another time for the next attempt. */
  andAgain(again: RetryWhen): AttemptFailure {
    return new AttemptFailure(this.toError, { again, shows: this.shows, reason: this.reason });
  }
}

interface FailureCircumstances {
  readonly label: string;
  readonly host: string;
  /** Whether the request went, or may have gone, onto a connection. */
  readonly sent: boolean;
  readonly idempotent: boolean;
  /** The option that has the address. Default: `base_url`. */
  readonly option?: AddressOption;
}

const partial: ReadonlySet<string> = new Set(['torn', 'encoded', 'body_timeout', 'total_timeout']);

/** @returns the value to throw for an exchange without a response */
export function failedExchange(
  failure: TransportError,
  circumstances: FailureCircumstances,
): AttemptFailure | CdsyncError {
  const { reason } = failure;
  if (reason === 'closed') return interrupted(failure);
  const { sent, idempotent, ...context } = circumstances;
  const passes = isPassing(reason);
  return new AttemptFailure((attempts) => failureError(failure, reason, { ...context, attempts }), {
    again: passes && (idempotent || !sent) ? 'later' : 'never',
    // This machine's lack of files is no sign of an outage.
    shows: passes && reason !== 'files' ? 'away' : 'nothing',
    reason: failure.systemCode ?? reason.replaceAll('_', ' '),
    isUnconnected: !sent && isUnconnected(reason),
    isUnreadable: reason === 'encoded',
    isPartial: partial.has(reason),
  });
}

/** One request over all its attempts. */
export class RequestAttempts {
  /** Attempts so far, the present one included. */
  count = 0;
  /** When the present attempt began. */
  lastAttemptAt = 0;
  /** When an attempt failed first; undefined: none has. */
  failedAt: number | undefined;
  /** When it was last sent to find out whether the service is back. */
  probedAt = Number.NEGATIVE_INFINITY;
  /** Milliseconds of outages that were over, or under way, when it failed first: they do not count against its own patience. */
  outageMs = 0;

  begin(nowMs: number): void {
    this.count += 1;
    this.lastAttemptAt = nowMs;
  }
}

/** Shorter waits are not worth a line. */
const minMs = 5_000;
/** Requests that were under way together are refused one after the other, and each response asks to wait. */
const sameWithinMs = 2_000;

/** Says that the service asked to wait, once for each wait, when it begins: otherwise nothing would seem to happen. */
export class RetryAfterNotices {
  readonly #notice: (text: string) => void;
  readonly #clock: Clock;
  #noticedUntil = Number.NEGATIVE_INFINITY;

  constructor(notice: (text: string) => void, clock: Clock) {
    this.#notice = notice;
    this.#clock = clock;
  }

  /** @param ms how long the service asked to wait @param status of its response */
  begins(ms: number, status: number): void {
    const until = this.#clock.monotonic() + ms;
    if (ms <= minMs || until <= this.#noticedUntil + sameWithinMs) return;
    this.#noticedUntil = until;
    this.#notice(`waiting ${formatDuration(ms)}: the service asked for it (${status})`);
  }
}

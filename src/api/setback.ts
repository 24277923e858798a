import type { CdsyncError } from '../core/errors.js';
import { interrupted } from './errors.js';
import { type AddressOption, failureError, isPassing, isUnconnected } from './failure-error.js';
import type { TransportError } from './transport-error.js';

/**
 * When a failed attempt may be repeated:
 * - `never`: another attempt cannot succeed, or could do something twice.
 * - `at_once`: the reason is gone, for example the token was renewed.
 * - `later`: after a pause, for as long as `retry.patience` allows.
 * - `when_allowed`: the same for a 429, which the budget answers too.
 */
export type Again = 'never' | 'at_once' | 'later' | 'when_allowed';

/** What a failure shows of the service: that it is away, that it answers, or neither (a 401, a 429). */
export type Shows = 'away' | 'alive' | 'nothing';

interface SetbackDetails {
  readonly again: Again;
  readonly shows: Shows;
  /** In a few words, for notices: `503`, `no connection`. */
  readonly reason: string;
  /** There was no connection, or what answered was not the service: before the first success, the address may be wrong. */
  readonly isUnconnected?: boolean;
  /** The answer was whole, but cannot be read. */
  readonly isUnreadable?: boolean;
  /** Milliseconds that the service asked to wait. */
  readonly waitMs?: number | undefined;
}

/** One failed attempt, with the error that it becomes if it is the last; never leaves the client. */
export class Setback extends Error {
  readonly again: Again;
  readonly shows: Shows;
  readonly reason: string;
  readonly isUnconnected: boolean;
  readonly isUnreadable: boolean;
  readonly waitMs: number;
  readonly toError: (attempts: number) => CdsyncError;

  constructor(toError: (attempts: number) => CdsyncError, details: SetbackDetails) {
    super(details.reason);
    this.toError = toError;
    this.again = details.again;
    this.shows = details.shows;
    this.reason = details.reason;
    this.isUnconnected = details.isUnconnected ?? false;
    this.isUnreadable = details.isUnreadable ?? false;
    this.waitMs = details.waitMs ?? 0;
  }

  /** The same setback with another time for the next attempt. */
  andAgain(again: Again): Setback {
    return new Setback(this.toError, { again, shows: this.shows, reason: this.reason });
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

/** @returns the value to throw for an exchange that brought no answer */
export function failureSetback(failure: TransportError, circumstances: FailureCircumstances): Setback | CdsyncError {
  const { reason } = failure;
  if (reason === 'closed') return interrupted(failure);
  const { sent, idempotent, ...context } = circumstances;
  const passes = isPassing(reason);
  return new Setback((attempts) => failureError(failure, reason, { ...context, attempts }), {
    again: passes && (idempotent || !sent) ? 'later' : 'never',
    shows: passes ? 'away' : 'nothing',
    reason: failure.systemCode ?? reason.replaceAll('_', ' '),
    isUnconnected: !sent && isUnconnected(reason),
  });
}

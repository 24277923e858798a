import type { CdsyncError } from '../core/errors.js';
import { interrupted } from './errors.js';
import type { ExchangeFailure } from './exchange-failure.js';
import { type AddressOption, failureError, isRetryable } from './failure-error.js';

/**
 * When a failed attempt may be repeated:
 * - `never`: another attempt cannot succeed, or could do something twice.
 * - `at_once`: the reason is gone, for example the token was renewed.
 * - `later`: after a backoff, as often as failures are retried.
 * - `when_allowed`: the same for a 429, which is retried for longer.
 */
export type Again = 'never' | 'at_once' | 'later' | 'when_allowed';

export interface SetbackDetails {
  readonly again: Again;
  /** The service has never answered: few attempts, so that the user soon learns of a wrong address. */
  readonly firstContact?: boolean;
  /** Milliseconds that the service asked to wait. */
  readonly waitMs?: number | undefined;
  /** The status of the answer, if one came. */
  readonly status?: number;
}

/** One failed attempt, with the error that it becomes if it is the last; never leaves the client. */
export class Setback extends Error {
  readonly again: Again;
  readonly firstContact: boolean;
  readonly waitMs: number;
  readonly status: number;
  readonly toError: (attempts: number) => CdsyncError;

  constructor(toError: (attempts: number) => CdsyncError, { again, firstContact, waitMs, status }: SetbackDetails) {
    super(again);
    this.toError = toError;
    this.again = again;
    this.firstContact = firstContact ?? false;
    this.waitMs = waitMs ?? 0;
    this.status = status ?? 0;
  }

  /** The same setback with another time for the next attempt. */
  andAgain(again: Again): Setback {
    return new Setback(this.toError, { again });
  }
}

export interface FailureCircumstances {
  readonly label: string;
  readonly host: string;
  /** Whether the request went, or may have gone, onto a connection. */
  readonly sent: boolean;
  readonly idempotent: boolean;
  /** Whether the service has ever answered. */
  readonly reached: boolean;
  /** The option that has the address. Default: `base_url`. */
  readonly option?: AddressOption;
}

/** @returns the value to throw for an exchange that brought no answer */
export function failureSetback(failure: ExchangeFailure, circumstances: FailureCircumstances): Setback | CdsyncError {
  const { reason } = failure;
  if (reason === 'closed') return interrupted(failure);
  const { sent, idempotent, reached, ...context } = circumstances;
  const mayRepeat = isRetryable(reason) && (idempotent || !sent);
  return new Setback((attempts) => failureError(failure, reason, { ...context, attempts }), {
    again: mayRepeat ? 'later' : 'never',
    firstContact: !sent && !reached,
  });
}

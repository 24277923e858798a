import { type Clock, callEvery } from '../core/clock.js';
import { formatCounted, formatDuration } from '../core/quantities.js';
import { type AttemptFailure, outagePauseMs, type RequestAttempts, type RetryOptions } from './retry.js';
import { ServiceError } from './service-error.js';

/** How often a notice says that an outage lasts. */
const repeatMs = 30_000;
/** An outage is shown when its first probe has failed too, or if the service asks for a wait longer than this. */
const longWaitMs = 5_000;
const lookMs = 5_000;

/** An outage, for a display. */
export interface OutageView {
  /** What messages call the API group. */
  readonly name: string;
  readonly ms: number;
  readonly requests: number;
  /** The last status, or why there was no response. */
  readonly last: string;
}

/** An outage of one API group: how long, how many requests, the last failure. It writes the notices about itself. */
export class Outage {
  readonly name: string;
  readonly since: number;
  /** Failed requests, those before its begin included. */
  requests: number;
  last: AttemptFailure | undefined;
  attempts = 1;
  /** When the next request may be sent. */
  nextAt = 0;
  /** The error of all who wait, once the patience is spent. */
  spent: (() => Error) | undefined;
  readonly #clock: Clock;
  readonly #notice: (text: string) => void;
  #pauses = 0;
  #noticedAt: number | undefined;
  #left = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(begun: {
    readonly name: string;
    readonly clock: Clock;
    readonly notice: (text: string) => void;
    /** The last success, or the first of the requests that failed, whichever is later. */
    readonly since: number;
    readonly requests: number;
  }) {
    this.name = begun.name;
    this.since = begun.since;
    this.requests = begun.requests;
    this.#clock = begun.clock;
    this.#notice = begun.notice;
  }

  get isShown(): boolean {
    return this.#noticedAt !== undefined;
  }

  view(nowMs: number): OutageView {
    return { name: this.name, ms: nowMs - this.since, requests: this.requests, last: this.last?.reason ?? '' };
  }

  failed(failure: AttemptFailure, attempts: number): void {
    this.requests += 1;
    this.last = failure;
    this.attempts = attempts;
  }

  nextPause(options: RetryOptions & { readonly random: () => number }, waitMs: number): number {
    const pause = Math.max(waitMs, outagePauseMs(this.#pauses, options));
    this.#pauses += 1;
    return pause;
  }

  /** Requests wait for the next probe; `leftMs` of the patience are left. */
  waits(leftMs: number, { waitMs }: AttemptFailure): void {
    this.#left = this.#clock.monotonic() + leftMs;
    const isFirst = this.#noticedAt === undefined;
    if (isFirst && this.#pauses < 2 && waitMs <= longWaitMs) return;
    if (!isFirst && !this.#isDue) return;
    this.#say(waitMs > longWaitMs ? `; it asked to wait ${formatDuration(waitMs)}` : '');
    // A probe that hangs must not silence the notices.
    this.#timer ??= callEvery(lookMs, () => this.#isDue && this.#say('')).unref();
  }

  /** The service responds again. */
  end(nowMs: number): void {
    this.close();
    if (this.#noticedAt === undefined) return;
    this.#notice(
      `the ${this.name} responds again, after ${formatDuration(nowMs - this.since)} and ${formatCounted(this.requests, 'failed request')}`,
    );
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  get #isDue(): boolean {
    return this.spent === undefined && this.#clock.monotonic() - (this.#noticedAt ?? 0) >= repeatMs;
  }

  #say(more: string): void {
    const nowMs = this.#clock.monotonic();
    this.#noticedAt = nowMs;
    const { ms, requests, last } = this.view(nowMs);
    const left = formatDuration(Math.max(0, this.#left - nowMs));
    this.#notice(
      `waiting for the ${this.name}: no success for ${formatDuration(ms)}, ${formatCounted(requests, 'failed request')}, last: ${last}${more}. cdsync waits for up to ${left} more`,
    );
  }
}

const hint =
  'run again when the service answers: it resumes from the checkpoint. `retry.patience` sets how long cdsync waits';

function since(timeOfDay: number, ms: number): string {
  return `since ${new Date(timeOfDay - ms).toISOString().replace(/\.\d+/, '')} (${formatDuration(ms)})`;
}

/** The error of a request whose patience ended in an outage. */
export function outageError(
  outage: Outage,
  end: {
    /** Outage within twice the patience. */
    readonly awayMs: number;
    /** The rest of the patience. */
    readonly leftMs: number;
    /** Whether any request has ever succeeded. */
    readonly wasReached: boolean;
    readonly name: string;
    readonly now: number;
    readonly timeOfDay: number;
  },
): Error {
  const { last, requests, attempts } = outage;
  if (last === undefined) throw new TypeError('an outage begins with a failure');
  // An address that never answered is probably wrong: its own error says so.
  if (!end.wasReached && last.isUnconnected) return last.toError(requests);
  const cause = last.toError(attempts);
  if (requests === 1 && last.waitMs === 0) return cause;
  const ms = end.now - outage.since;
  const isAnswered = (cause as ServiceError).status !== undefined;
  const unanswered = last.isPartial ? 'given no whole response' : 'not answered';
  const often = end.awayMs > ms + 1_000 ? `, and for ${formatDuration(end.awayMs)} of the last while` : '';
  return unavailable(
    `the ${end.name} has ${isAnswered ? 'answered only with errors' : unanswered} ${since(end.timeOfDay, ms)}${often}, ${formatCounted(requests, 'request')}. Last: ${cause.message}`,
    last,
    { cause, leftMs: end.leftMs },
  );
}

/** The hint if the service itself said when it takes requests again, and the patience does not last until then. */
function askedHint({ waitMs }: AttemptFailure, leftMs: number): string | undefined {
  const isTooLong = waitMs > 60_000 || (leftMs > 0 && waitMs > leftMs);
  if (!isTooLong) return undefined;
  return `the service asks cdsync to wait ${formatDuration(waitMs)}, longer than \`retry.patience\` allows: run again after that`;
}

/** The error of a request that kept failing while others succeeded. */
export function singleError(
  failure: AttemptFailure,
  { count }: RequestAttempts,
  { sinceMs, leftMs, timeOfDay }: { readonly sinceMs: number; readonly leftMs: number; readonly timeOfDay: number },
): Error {
  const cause = failure.toError(count);
  const asked = askedHint(failure, leftMs);
  if (failure.shows === 'nothing' && asked !== undefined)
    return new ServiceError(cause.message, { ...(cause as ServiceError), hint: asked });
  if (failure.shows === 'nothing' || failure.isUnreadable || (failure.isUnconnected && sinceMs === 0)) return cause;
  const message = `${cause.message}. It has failed ${since(timeOfDay, sinceMs)}`;
  return unavailable(message, failure, { cause, leftMs, isSingle: true });
}

function unavailable(
  message: string,
  failure: AttemptFailure,
  { cause, leftMs, isSingle = false }: { readonly cause: Error; readonly leftMs: number; readonly isSingle?: boolean },
): ServiceError {
  const { isUnreadable } = failure;
  const { status, serviceMessage, requestId, traceId, code, hint: bodyHint } = cause as ServiceError;
  const hasOwn = isUnreadable || code === 'timeout';
  return new ServiceError(message, {
    code: isUnreadable ? code : 'service_unavailable',
    kind: 'retryable',
    isSingle,
    status,
    serviceMessage,
    requestId,
    traceId,
    cause: cause.cause,
    hint:
      askedHint(failure, leftMs) ??
      (hasOwn && bodyHint !== undefined
        ? `${bodyHint.replace(/[?.]?$/, (end) => end || '.')} Otherwise ${hint}`
        : hint),
  });
}

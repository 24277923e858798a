import type { Clock } from '../core/clock.js';
import { formatDuration } from '../core/quantities.js';
import { redactor, Secret } from '../core/secret.js';
import type { ApiGroup, AuthOptions } from '../core/service-options.js';
import type { Answer } from './answer-collector.js';
import { looksLikeHtml } from './body-shape.js';
import { ServiceError } from './errors.js';
import type { Operation } from './operation.js';
import { personalValues } from './personal-values.js';
import { maxRetryAfterMs, retryAfterMs } from './retry-policy.js';
import { type Again, Setback } from './setback.js';
import { isRetryableStatus, redirectError, statusError } from './status-error.js';
import type { TokenSource } from './token-source.js';

/** Judges an answer that cannot be used: which error it becomes, and whether the request may be sent again. */
export class AnswerJudge {
  readonly #auth: AuthOptions['type'];
  readonly #tokens: TokenSource;
  readonly #clock: Clock;
  /** Whether any answer was ever usable. Before that, a web page (of a proxy) is not asked for again and again. */
  #understood = false;

  constructor(auth: AuthOptions['type'], tokens: TokenSource, clock: Clock) {
    this.#auth = auth;
    this.#tokens = tokens;
    this.#clock = clock;
  }

  /** Call it after each decoded answer. */
  understood(): void {
    this.#understood = true;
  }

  /** The setback for an answer whose status is not a success. */
  refusal(operation: Operation, answer: Answer, idempotent: boolean): Setback {
    const { status, headers } = answer;
    const { label, permissions, permissionInstead, group } = operation;
    if (status >= 300 && status < 400) return new Setback(() => redirectError(answer, label), { again: 'never' });
    const waitMs = retryAfterMs(headers, this.#clock.now()) ?? 0;
    const tooLong = waitMs > maxRetryAfterMs;
    const toError = (attempts: number) => {
      const redact = this.#redactor(operation);
      const hint = tooLong
        ? `the service asks cdsync to wait ${formatDuration(waitMs)}: run again after that`
        : undefined;
      return statusError(answer, {
        label,
        group,
        attempts,
        permissions,
        permissionInstead,
        redact,
        auth: this.#auth,
        hint,
      });
    };
    return new Setback(toError, { again: tooLong ? 'never' : againAfter(status, idempotent, group), waitMs, status });
  }

  /** The setback for a success whose body is not what the operation should answer. */
  malformed(operation: Operation, { body, headers, status }: Answer, cause: Error, idempotent: boolean): Setback {
    const html = looksLikeHtml(body, headers['content-type']);
    const reason = html ? 'it is a web page' : cause instanceof SyntaxError ? 'it is not JSON' : cause.message;
    const toError = (attempts: number) => {
      const tries = attempts > 1 ? `, tried ${attempts} times` : '';
      return new ServiceError(`${operation.label} got an answer that cannot be read (${status})${tries}: ${reason}`, {
        code: 'malformed_response',
        kind: 'retryable',
        status,
        hint: html
          ? 'this looks like a proxy or a login page: is `base_url` the address of the API itself?'
          : 'if it happens again, something between cdsync and the service may cut or change its answers',
      });
    };
    return new Setback(toError, { again: idempotent ? 'later' : 'never', firstContact: html && !this.#understood });
  }

  #redactor(operation: Operation): (text: string) => string {
    const personal = Array.from(personalValues(operation), (value) => new Secret(value));
    return redactor([...this.#tokens.secrets(), ...personal]);
  }
}

function againAfter(status: number, idempotent: boolean, group: ApiGroup): Again {
  if (status === 429) return 'when_allowed';
  // A 503 means that the service did not take the event (published facts, Real-time API), so it may be sent again. For the
  // start of a workflow no such fact is published.
  if (isRetryableStatus(status) && (idempotent || (status === 503 && group === 'realtime'))) return 'later';
  return 'never';
}

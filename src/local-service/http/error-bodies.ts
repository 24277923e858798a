import { mix } from '../data/hash.js';
import { type Answer, jsonAnswer } from './answer.js';
import { ServiceError } from './service-error.js';

/** Makes error bodies (specification, section 2.6), each with its own ids. */
export class ErrorBodies {
  #count = 0;

  /** @param hasIds whether the body has the ids, which are optional */
  answer(thrown: unknown, hasIds = true): Answer {
    const error = thrown instanceof ServiceError ? thrown : new ServiceError(500, `internal error: ${String(thrown)}`);
    return {
      ...jsonAnswer({ status: error.status, message: error.message, ...(hasIds ? this.#ids() : {}) }, error.status),
      headers: error.headers,
    };
  }

  #ids(): Record<string, unknown> {
    this.#count += 1;
    const id = this.#count.toString(16).padStart(8, '0');
    const trace = [1, 2, 3, 4].map((part) =>
      mix(this.#count * 4 + part)
        .toString(16)
        .padStart(8, '0'),
    );
    return { request_id: `req-${id}`, trace_id: trace.join('') };
  }
}

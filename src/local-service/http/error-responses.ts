import { mix } from '../data/hash.js';
import { jsonResponse, ServiceError, type ServiceResponse } from './response.js';

/** Makes the responses to errors (specification, section 2.6), each with its own ids. */
export class ErrorResponses {
  #count = 0;

  /** @param hasIds whether the body has the ids, which are optional */
  of(thrown: unknown, hasIds = true): ServiceResponse {
    const error = thrown instanceof ServiceError ? thrown : new ServiceError(500, `internal error: ${String(thrown)}`);
    return {
      ...jsonResponse({ status: error.status, message: error.message, ...(hasIds ? this.#ids() : {}) }, error.status),
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

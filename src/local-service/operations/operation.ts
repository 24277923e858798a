import type { IncomingMessage } from 'node:http';
import type { ApiGroup } from '../../core/service-options.js';
import type { Fault } from '../faults/fault.js';
import type { Answer } from '../http/answer.js';
import type { Query } from '../http/query.js';
import type { ApiKey } from '../keys/api-key.js';
import type { Permission } from '../permissions.js';
import type { ServiceState } from '../service-state.js';

/** What an operation is given of a request. */
export interface Call {
  readonly request: IncomingMessage;
  /** What stands in the place of each `{…}` of the path. */
  readonly parameters: readonly string[];
  readonly query: Query;
  /** From the tenant header; of guarded operations, the tenant that the token was issued for. */
  readonly tenant: string;
  /** The API key that the token was issued for; undefined where no token is asked for. */
  readonly key: ApiKey | undefined;
  /** The faults that were set for this request. */
  readonly faults: readonly Fault[];
}

/** What a request must bring before an operation takes it. */
export interface Guard {
  /** Whose budget the request counts in. */
  readonly group: ApiGroup;
  /** Accepted in `api-version`, `unstable` apart; empty where no version is needed. */
  readonly versions: readonly string[];
  readonly permissions: readonly Permission[];
}

/** One operation of the service: a file of its own, and a line in the table. */
export interface Operation {
  readonly method: string;
  /** With its prefix; parameters as `{name}`. */
  readonly path: string;
  /** Left out of the one operation that gives tokens. */
  readonly guard?: Guard;
  /** Changes what a restart must not lose, nothing but events perhaps: it is saved before the answer is sent. */
  readonly lasting?: true | 'events';
  /** @throws {ServiceError} whatever is to be answered instead */
  handle(call: Call, state: ServiceState): Answer | Promise<Answer>;
}

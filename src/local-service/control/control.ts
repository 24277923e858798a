import { z } from 'zod';
import { badRequest } from '../http/service-error.js';
import type { ServiceState } from '../service-state.js';

/** What a control works on. */
export interface ControlContext {
  readonly state: ServiceState;
  /** Writes the state file; false where the service has none. */
  save(): Promise<boolean>;
}

/** One way to steer the local service from outside. */
export interface Control {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Behind `/_control/`. */
  readonly path: string;
  /** Changes what a restart must not lose. */
  readonly lasting?: true;
  /** Returns what is answered as JSON; undefined answers 204. */
  handle(body: unknown, context: ControlContext): unknown;
}

/** @throws {ServiceError} 400 that names everything that is wrong with the body */
export function checked<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw badRequest(z.prettifyError(result.error));
}

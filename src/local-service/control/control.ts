import { z } from 'zod';
import { badRequest } from '../http/service-error.js';
import type { ServiceState } from '../service-state.js';
import type { ControlAccess } from './control-access.js';

/** What a control works on. */
export interface ControlContext {
  readonly state: ServiceState;
  readonly access: ControlAccess;
  /** Writes the state file; false if the service has none. */
  save(): Promise<boolean>;
}

/** One way to steer the local service from outside. */
export interface Control {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The path after `/_control/`. */
  readonly path: string;
  /** Changes state that a restart must keep. */
  readonly lasting?: true;
  /** Returns the value to answer as JSON; undefined answers 204. */
  handle(body: unknown, context: ControlContext): unknown;
}

/** @throws {ServiceError} 400 that names every mistake in the body */
export function checked<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw badRequest(z.prettifyError(result.error));
}

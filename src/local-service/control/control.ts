import { z } from '../../core/zod.js';
import { badRequest } from '../http/response.js';
import type { ServiceState } from '../service-state.js';
import type { ControlAccess } from './control-access.js';

/** The service, as a control sees it. */
export interface ControlContext {
  readonly state: ServiceState;
  readonly access: ControlAccess;
  /** Writes the state file; false if the service has none. */
  save(): Promise<boolean>;
}

/** One way to control the local service from outside. */
export interface Control {
  readonly method: string;
  /** The path after `/_control/`. */
  readonly path: string;
  /** Changes state that a restart must keep. */
  readonly lasting: boolean;
  /** Returns the value to send as JSON; undefined sends 204. */
  handle(body: unknown, context: ControlContext): unknown;
}

type Handle<T> = (body: T, state: ServiceState, context: ControlContext) => unknown;

function control<T>(route: string, schema: z.ZodType<T>, handle: Handle<T>, lasting: boolean): Control {
  const [method = '', path = ''] = route.split(' ');
  return {
    method,
    path,
    lasting,
    handle: (body, context) => {
      const parsed = schema.safeParse(body);
      // The message names every mistake in the body.
      if (!parsed.success) throw badRequest(z.prettifyError(parsed.error));
      return handle(parsed.data, context.state, context);
    },
  };
}

/** A control that a restart forgets, or that only shows something. @param route such as `GET stats` */
export function passing<T>(route: string, schema: z.ZodType<T>, handle: Handle<T>): Control {
  return control(route, schema, handle, false);
}

/** A control whose change a restart must keep. @param route such as `POST time` */
export function lasting<T>(route: string, schema: z.ZodType<T>, handle: Handle<T>): Control {
  return control(route, schema, handle, true);
}

/** The body of a control that needs none. */
export const emptyBody = z.unknown();
